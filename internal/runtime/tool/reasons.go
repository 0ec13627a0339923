package tool

import "github.com/capstan-dev/capstan/api/v1alpha1"

// Reasons of the end of a tool call, in status.toolCalls[].reason and as the value of a metric label. The list is
// closed.
const (
	// ReasonCompleted: the tool exited with 0.
	ReasonCompleted = "Completed"
	// ReasonExitCode: the tool exited with another code than 0, or was ended by a signal of its own making. It is never
	// retried.
	ReasonExitCode = "ExitCode"
	// ReasonTimeout: the tool ran longer than its timeout.
	ReasonTimeout = "Timeout"
	// ReasonStartTimeout: the tool's container did not start within its start timeout, and the cause is unknown.
	ReasonStartTimeout = "StartTimeout"
	// ReasonStartError: the container or the command in it could not be started.
	ReasonStartError = "StartError"
	// ReasonImagePull: the image of the tool, or of the launcher, could not be pulled.
	ReasonImagePull = "ImagePull"
	// ReasonUnschedulable: no node could take the pod.
	ReasonUnschedulable = "Unschedulable"
	// ReasonQuotaExceeded: a quota of the namespace has no room for the Job or its pod.
	ReasonQuotaExceeded = "QuotaExceeded"
	// ReasonRefused: the API server, or a policy in it, did not accept the Job or its pod.
	ReasonRefused = "Refused"
	// ReasonNetworkOpen: the tool must run without network, and the namespace's NetworkPolicies would permit traffic.
	ReasonNetworkOpen = "NetworkOpen"
	// ReasonNetworkAccessUnenforceable: a network access list is in force, and cannot hold the pod of this tool.
	ReasonNetworkAccessUnenforceable = v1alpha1.ReasonNetworkAccessUnenforceable
	// ReasonNoPod: the Job got no pod, and the cause is unknown.
	ReasonNoPod = "NoPod"
	// ReasonToolChanged: the Tool was changed or deleted after the call was planned.
	ReasonToolChanged = "ToolChanged"
	// ReasonRejected: the call needs approval, and was rejected.
	ReasonRejected = "Rejected"
	// ReasonApprovalTimeout: the call needs approval, and was not approved in time.
	ReasonApprovalTimeout = "ApprovalTimeout"
	// ReasonOOMKilled: the tool was killed because it used more memory than its limit.
	ReasonOOMKilled = "OOMKilled"
	// ReasonDisruption: the pod was evicted, preempted or deleted before the tool had ended.
	ReasonDisruption = "Disruption"
	// ReasonKilled: the tool's container was killed from outside, by an unknown party.
	ReasonKilled = "Killed"
	// ReasonNodeLost: the node stopped reporting, or lost the container.
	ReasonNodeLost = "NodeLost"
	// ReasonOutputLost: the tool ended, and its output cannot be read.
	ReasonOutputLost = "OutputLost"
	// ReasonSecondStart: a pod or a container other than the first one ran or would have run; the first one's end is
	// not known.
	ReasonSecondStart = "SecondStart"
	// ReasonPodGone: the pod for the call no longer exists, and its end was not observed.
	ReasonPodGone = "PodGone"
	// ReasonHTTPStatus: the server answered with another status than 200 to 299. It is never retried.
	ReasonHTTPStatus = "HTTPStatus"
	// ReasonInvalidRequest: the Tool makes no request that can be sent.
	ReasonInvalidRequest = "InvalidRequest"
	// ReasonInvalidArguments: the arguments cannot be sent the way that the Tool sends them.
	ReasonInvalidArguments = "InvalidArguments"
	// ReasonArgumentsTooLarge: the arguments are larger than a request's URL can be.
	ReasonArgumentsTooLarge = "ArgumentsTooLarge"
	// ReasonSecretUnusable: a Secret for a header does not exist, lacks the key, holds no valid header, or is bound to
	// other hosts.
	ReasonSecretUnusable = "SecretUnusable"
	// ReasonAddressRefused: the manager may not reach the host.
	ReasonAddressRefused = "AddressRefused"
	// ReasonNetworkAccessDenied: the network access list does not permit the URL.
	ReasonNetworkAccessDenied = "NetworkAccessDenied"
	// ReasonConnectionFailed: no connection to the host was established, or none that can be trusted.
	ReasonConnectionFailed = "ConnectionFailed"
	// ReasonConnectionLost: the connection broke before the response was there.
	ReasonConnectionLost = "ConnectionLost"
	// ReasonRedirectRefused: the server redirected the request to where it may not go.
	ReasonRedirectRefused = "RedirectRefused"
	// ReasonPanicked: the function that replaces the tool's container panicked. Such functions exist only in the
	// in-process runtime.
	ReasonPanicked = "Panicked"
	// ReasonNoFunction: no function replaces the tool's container in the in-process runtime.
	ReasonNoFunction = "NoFunction"
	// ReasonManagerLost: the manager ended, or lost leadership, while the request was in progress.
	ReasonManagerLost = "ManagerLost"
	// ReasonLogFull: the Session's journal had no room for the claim of the call.
	ReasonLogFull = "LogFull"
	// ReasonJobGone: the Job of the call no longer exists, and its end was not observed.
	ReasonJobGone = "JobGone"
)

// Reasons why a call has not started yet.
const (
	// ReasonSuspended: the Job is suspended; the start timeout does not run.
	ReasonSuspended = "Suspended"
	// ReasonGated: the pod waits to be recorded and released.
	ReasonGated = "Gated"
	// ReasonServiceAccountRefused: the API server does not accept the ServiceAccount that the pod is to run as. It is
	// tried again until the start timeout has passed.
	ReasonServiceAccountRefused = "ServiceAccountRefused"
	// ReasonStarting: the pod or its container is being made.
	ReasonStarting = "Starting"
)
