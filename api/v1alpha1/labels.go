package v1alpha1

// Labels on the objects that the manager creates. Values are UIDs, ids from the runtime and names of users' objects,
// never text from a model.
const (
	// LabelTurnUID is on the Job of every tool call of a Turn and on its pods: the UID of the Turn. The Jobs of background
	// tasks have LabelTask instead.
	LabelTurnUID = "capstan.dev/turn-uid"
	// LabelStep is on the Jobs and pods that have LabelTurnUID: the step of the Turn's plan that made the call, in
	// decimal.
	LabelStep = "capstan.dev/step"
	// LabelCall is on the Jobs and pods that have LabelTurnUID, and on the LeasedResource that a call of the Turn in its
	// spec has created: the runtime's id of the call, `<iteration>-<index>`.
	LabelCall = "capstan.dev/call"
	// LabelAttempt is on the Jobs and pods that have LabelTurnUID: the attempt of the call, from 1. A lower attempt than
	// the one in the Turn's status is outdated and ignored.
	LabelAttempt = "capstan.dev/attempt"
	// LabelTurn is on the Jobs and pods that have LabelTurnUID: the name of the Turn. It is absent if the name is no label
	// value.
	LabelTurn = "capstan.dev/turn"
	// LabelTool is on every tool Job and its pods: the name of the Tool. It is absent if the name is no label value,
	// because it is longer than 63 characters.
	LabelTool = "capstan.dev/tool"
	// LabelNetwork is on the pods of tools that declare `network: None`, with the value None. A NetworkPolicy selects
	// them by it.
	LabelNetwork = "capstan.dev/network"
	// LabelTask is on the Jobs of background tasks, on their pods and on the Turns that deliver their ends: the id of the
	// task. Such Jobs and pods have no label of a Turn.
	LabelTask = "capstan.dev/task"
	// LabelSchedule is on the Sessions and the Turns that were created for a Schedule: the name of the Schedule.
	LabelSchedule = "capstan.dev/schedule"
	// LabelSessionUID is on the Schedules that models create and on LeasedResources: the UID of their Session.
	LabelSessionUID = "capstan.dev/session-uid"
	// LabelConnection makes a Secret the connection of a user: the name of the provider.
	LabelConnection = "capstan.dev/connection"
	// LabelOAuthClient makes a Secret the OAuth client by which connections to a provider are refreshed: the name of the
	// provider.
	LabelOAuthClient = "capstan.dev/oauth-client"
	// LabelSessionSecrets makes a Secret the one with the secrets of a Session: the UID of the Session.
	LabelSessionSecrets = "capstan.dev/session-secrets"
	// LabelCapability is on the Jobs of the tools of a built-in capability and on their pods: the name of the capability,
	// such as platform. A NetworkPolicy can select them by it.
	LabelCapability = "capstan.dev/capability"
	// LabelArchived is on Sessions that a tool of the capability platform has archived, with the value "true".
	LabelArchived = "capstan.dev/archived"
	// LabelManagedBy marks the objects that the manager created, with the value ManagedByCapstan.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ManagedByCapstan is the value of LabelManagedBy.
	ManagedByCapstan = "capstan"
)

// Annotations.
const (
	// AnnotationDefaultModel on a Model, with the value "true", makes it the default of its namespace. If
	// several Models have it, the newest is the default, as with StorageClass.
	AnnotationDefaultModel = "capstan.dev/is-default-model"
	// AnnotationFingerprint is on every tool Job: SHA-256 over tool name and the model's arguments.
	AnnotationFingerprint = "capstan.dev/fingerprint"
	// AnnotationArguments is on every tool pod: the model's arguments, byte for byte, at most 96 KiB.
	AnnotationArguments = "capstan.dev/arguments"
	// AnnotationFiles is on the pod of a tool that gets files of its Session: these files.
	AnnotationFiles = "capstan.dev/files"
	// AnnotationReleasedAt is on the pods of AtMostOnce calls whose scheduling gate was removed: the time of the
	// removal, in RFC 3339. Their start timeout counts from it.
	AnnotationReleasedAt = "capstan.dev/released-at"
	// AnnotationAllowedHosts on a Secret binds it to hosts: it may be sent to these and to no others. No Job tool
	// receives such a Secret, because a Job could send it anywhere.
	AnnotationAllowedHosts = "capstan.dev/allowed-hosts"
	// AnnotationConnectionOwner on a Secret with LabelConnection is the user whose connection it is, by the name that the
	// API server knows the user by. Only this user may write the Secret.
	AnnotationConnectionOwner = "capstan.dev/connection-owner"
	// AnnotationOAuthClient on a Secret with LabelConnection names the Secret of the namespace, with LabelOAuthClient, by
	// which its token is refreshed.
	AnnotationOAuthClient = "capstan.dev/oauth-client"
	// AnnotationTokenHosts on a Secret with LabelConnection lists the hosts that its refresh token may be sent to, in the
	// form of AnnotationAllowedHosts. A connection with AnnotationOAuthClient needs it: the address of the token endpoint
	// is that of another user.
	AnnotationTokenHosts = "capstan.dev/token-hosts"
	// AnnotationSecretsSession on a Secret with LabelSessionSecrets is the name of the Session.
	AnnotationSecretsSession = "capstan.dev/secrets-session"
	// AnnotationSecretPrefix and the name of a secret make the key of an annotation on a Secret with
	// LabelSessionSecrets: JSON with the id of the secret, which changes with its value, and its hosts.
	AnnotationSecretPrefix = "secrets.capstan.dev/"
	// AnnotationWalletMaxPerDay makes a Secret a wallet, with the most that may be paid from it in a day, in UTC, as a
	// decimal in US dollars, such as 5.00. A wallet needs AnnotationAllowedHosts as well, and is never sent anywhere.
	AnnotationWalletMaxPerDay = "capstan.dev/wallet-max-per-day"
	// AnnotationPlatformCall is on the objects that a tool of the capability platform has created: a hash of the call.
	AnnotationPlatformCall = "capstan.dev/platform-call"
	// AnnotationPlatformSession is on the same objects: the Session of the agent that made the call.
	AnnotationPlatformSession = "capstan.dev/platform-session"
	// AnnotationPlatformDepth is on the Turns that a tool of the capability platform has created: how many messages of
	// agents they follow from.
	AnnotationPlatformDepth = "capstan.dev/platform-depth"
	// AnnotationHold on a Session, with the reason as its value, keeps the Session and its journal: only users with the
	// verb release on sessions may delete the Session or change the annotation.
	AnnotationHold = "capstan.dev/hold"
)

// FinalizerSessionEnd is on the Sessions that have hooks at their end. The manager removes it once the hooks have run,
// or have had 30 seconds, and at once where the namespace is being deleted.
const FinalizerSessionEnd = "capstan.dev/session-end"

// FinalizerLease is on LeasedResources until what they describe is cleaned up or abandoned.
const FinalizerLease = "capstan.dev/lease-cleanup"

// SchedulingGateStart holds the pods of AtMostOnce calls until one of them is recorded in Turn status.
const SchedulingGateStart = "capstan.dev/start"

// NetworkPolicyNone is the name of the NetworkPolicy that isolates the pods of tools that declare `network: None`, one
// in each namespace that has such tools.
const NetworkPolicyNone = "capstan-network-none"

// ToolServiceAccount is the name of the default ServiceAccount of tool pods, for Tools that name no other; one in each
// namespace that has such tools. It has no token.
const ToolServiceAccount = "capstan-tool"

// ToolContainerName is the name of the container that runs the tool. Its position in the pod does not matter.
const ToolContainerName = "tool"
