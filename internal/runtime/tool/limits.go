package tool

import "time"

const (
	// MaxArgumentsBytes is the most that the arguments of one call may take. They travel in a pod annotation.
	MaxArgumentsBytes = 96 * 1024
	// MaxResultBytes is the most of a result that the model is shown (TOOL-19).
	MaxResultBytes = 64 * 1024
	// MaxSchemaBytes is the most that the inputSchema of a Tool may take.
	MaxSchemaBytes = 32 * 1024
	// MaxPreviewBytes is the most that Preview returns.
	MaxPreviewBytes = 160
	// MaxConcurrency is the most calls of one step that run at the same time (TOOL-12).
	MaxConcurrency = 32
	// MaxCallsPerStep is the most calls that one step may have.
	MaxCallsPerStep = 64
)

const (
	// DefaultTimeout is how long a tool may run when its Tool does not say, counted from the start of its container.
	DefaultTimeout = 5 * time.Minute
	// DefaultStartTimeout is how long a tool's container may take to start when its Tool does not say.
	DefaultStartTimeout = 2 * time.Minute
	// RunMargin is how long past its timeout a container may still be seen running before it must be killed from outside: the
	// launcher enforces the timeout itself, and its report needs time to arrive.
	RunMargin = 10 * time.Second
	// DeletionMargin is how long past the end of its grace period a deleted pod may go without news before its node counts as lost.
	DeletionMargin = 30 * time.Second
)
