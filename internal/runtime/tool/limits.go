package tool

import "time"

const (
	// MaxArgumentsBytes is the maximum size of the arguments of one call. They are passed in a pod annotation.
	MaxArgumentsBytes = 96 * 1024
	// MaxResultBytes is the maximum size of a result that the model reads (TOOL-19).
	MaxResultBytes = 64 * 1024
	// MaxSchemaBytes is the maximum size of the inputSchema of a Tool.
	MaxSchemaBytes = 32 * 1024
	// MaxPreviewBytes is the maximum length of a preview.
	MaxPreviewBytes = 160
	// MaxURLBytes is the maximum length of a URL with the arguments in its query.
	MaxURLBytes = 8 * 1024
	// MaxHeaderBytes is the maximum length of the value of a header.
	MaxHeaderBytes = 8 * 1024
	// MaxErrorBodyBytes is the maximum size of an error response that the model reads.
	MaxErrorBodyBytes = 4 * 1024
	// MaxCallsPerStep is the maximum number of calls of a step.
	MaxCallsPerStep = 64
)

const (
	// DefaultTimeout is how long a tool may run if its Tool sets no timeout, counted from the start of its container.
	DefaultTimeout = 5 * time.Minute
	// DefaultHTTPTimeout is how long a request may take if its Tool sets no timeout.
	DefaultHTTPTimeout = 30 * time.Second
	// DefaultStartTimeout is how long a tool's container may take to start if its Tool sets no timeout.
	DefaultStartTimeout = 2 * time.Minute
	// RunMargin is how long past its timeout a container may still be observed as running before it is killed from
	// outside: the launcher enforces the timeout itself, and its report needs time to arrive.
	RunMargin = 10 * time.Second
	// DeletionMargin is how long past the end of its grace period a deleted pod may go without news before its node
	// counts as lost.
	DeletionMargin = 30 * time.Second
)
