package result

// Variables that the Job of a tool call sets for the launcher, and the launcher for the tool. No variable has a value
// from a model, except for those that begin with EnvArgumentPrefix, which the launcher sets after the kubelet's
// expansion.
const (
	// EnvArgumentsFile is the file with the arguments, byte for byte.
	EnvArgumentsFile = "CAPSTAN_ARGUMENTS_FILE"
	// EnvIdempotencyKey is the same for every attempt of a call and differs between calls.
	EnvIdempotencyKey = "CAPSTAN_IDEMPOTENCY_KEY"
	// EnvLocale is the response language for the user, a BCP 47 tag. It is unset if there is none.
	EnvLocale = "CAPSTAN_LOCALE"
	// EnvSession is the name of the Session.
	EnvSession = "CAPSTAN_SESSION"
	// EnvTool is the name of the Tool, for images that hold several.
	EnvTool = "CAPSTAN_TOOL"
	// EnvTurn is the name of the Turn.
	EnvTurn = "CAPSTAN_TURN"
	// EnvTraceParent is the W3C trace context of the call.
	EnvTraceParent = "TRACEPARENT"
	// EnvTokenFile and EnvCAFile are the files with the token of a ServiceAccount and with the certificates of the API
	// server. Only the tools of the capability platform have them.
	EnvTokenFile = "CAPSTAN_TOKEN_FILE"
	EnvCAFile    = "CAPSTAN_CA_FILE"
	// EnvArgumentPrefix begins the variables that carry single arguments. The launcher alone sets them.
	EnvArgumentPrefix = "CAPSTAN_ARG_"

	// EnvLauncherPrefix begins the variables that are for the launcher and that the tool does not get.
	EnvLauncherPrefix = "CAPSTAN_LAUNCHER_"
	// EnvStartMark is the file that the launcher creates before it starts the tool.
	EnvStartMark = EnvLauncherPrefix + "START_MARK"
	// EnvMessageFile is the file for the termination message.
	EnvMessageFile = EnvLauncherPrefix + "MESSAGE_FILE"
	// EnvTimeout is how long the tool may run, counted from the start of the launcher, as a Go duration.
	EnvTimeout = EnvLauncherPrefix + "TIMEOUT"
	// EnvFilesFile is the file with the files that the tool gets, and EnvFilesRoot the directory that they are put into.
	EnvFilesFile = EnvLauncherPrefix + "FILES_FILE"
	EnvFilesRoot = EnvLauncherPrefix + "FILES_ROOT"
	// EnvOutputs is a JSON array with the paths of the files and directories that the tool returns.
	EnvOutputs = EnvLauncherPrefix + "OUTPUTS"
	// EnvKeepOutput is set if an output that is longer than a result is to be returned whole.
	EnvKeepOutput = EnvLauncherPrefix + "KEEP_OUTPUT"
	// EnvScalars is a JSON array with the names of the arguments that get a variable of their own.
	EnvScalars = EnvLauncherPrefix + "SCALARS"
)

// MaxScalarBytes is the most that the value of an argument may take to get a variable of its own.
const MaxScalarBytes = 4096
