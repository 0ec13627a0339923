package tool

const (
	// MaxArgumentsBytes is the maximum size of the arguments of one call. They are passed in a pod annotation.
	MaxArgumentsBytes = 96 * 1024
	// MaxResultBytes is the maximum size of a result that the model reads (TOOL-19).
	MaxResultBytes = 64 * 1024
	// MaxPreviewBytes is the maximum length of a preview.
	MaxPreviewBytes = 160
	// MaxErrorBodyBytes is the maximum size of an error response that the model reads.
	MaxErrorBodyBytes = 4 * 1024
	// MaxCallsPerStep is the maximum number of calls of a step.
	MaxCallsPerStep = 64
)
