package capstantest

import "github.com/capstan-dev/capstan/internal/runtime/tool"

// Reasons in status.toolCalls of a Turn, for HaveToolCall.
const (
	// ReasonCompleted: the tool exited with 0.
	ReasonCompleted = tool.ReasonCompleted
	// ReasonExitCode: the tool exited with another code than 0.
	ReasonExitCode = tool.ReasonExitCode
	// ReasonTimeout: the tool ran longer than its timeout.
	ReasonTimeout = tool.ReasonTimeout
	// ReasonStartTimeout: the container did not start within its start timeout, and the cause is unknown.
	ReasonStartTimeout = tool.ReasonStartTimeout
	// ReasonStartError: the container or the command in it could not be started.
	ReasonStartError = tool.ReasonStartError
	// ReasonImagePull: the image could not be pulled.
	ReasonImagePull = tool.ReasonImagePull
	// ReasonUnschedulable: no node could take the pod.
	ReasonUnschedulable = tool.ReasonUnschedulable
	// ReasonQuotaExceeded: a quota has no room for the Job or its pod.
	ReasonQuotaExceeded = tool.ReasonQuotaExceeded
	// ReasonRefused: the API server did not accept the Job or its pod.
	ReasonRefused = tool.ReasonRefused
	// ReasonRejected: the call was rejected.
	ReasonRejected = tool.ReasonRejected
	// ReasonApprovalTimeout: the call was not approved in time.
	ReasonApprovalTimeout = tool.ReasonApprovalTimeout
	// ReasonOOMKilled: the tool used more memory than its limit.
	ReasonOOMKilled = tool.ReasonOOMKilled
	// ReasonDisruption: the pod was evicted, preempted or deleted before the tool had ended.
	ReasonDisruption = tool.ReasonDisruption
	// ReasonKilled: the container was killed from outside, by an unknown party.
	ReasonKilled = tool.ReasonKilled
	// ReasonNodeLost: the node stopped reporting, or lost the container.
	ReasonNodeLost = tool.ReasonNodeLost
	// ReasonOutputLost: the tool ended, and its output cannot be read.
	ReasonOutputLost = tool.ReasonOutputLost
	// ReasonJobGone: the Job no longer exists.
	ReasonJobGone = tool.ReasonJobGone
	// ReasonToolChanged: the Tool was changed or deleted after the call was planned.
	ReasonToolChanged = tool.ReasonToolChanged
	// ReasonHTTPStatus: the server answered with another status than 200 to 299.
	ReasonHTTPStatus = tool.ReasonHTTPStatus
	// ReasonSecretUnusable: a Secret that a header needs does not exist, lacks the key, holds no header, or is bound to
	// other hosts.
	ReasonSecretUnusable = tool.ReasonSecretUnusable
	// ReasonAddressRefused: the manager may not reach the host.
	ReasonAddressRefused = tool.ReasonAddressRefused
	// ReasonNetworkAccessDenied: the network access list does not permit the URL.
	ReasonNetworkAccessDenied = tool.ReasonNetworkAccessDenied
	// ReasonNetworkAccessUnenforceable: a network access list is in force, and cannot hold the pod of the tool.
	ReasonNetworkAccessUnenforceable = tool.ReasonNetworkAccessUnenforceable
	// ReasonConnectionFailed: no connection to the host came about, or none that can be trusted.
	ReasonConnectionFailed = tool.ReasonConnectionFailed
	// ReasonConnectionLost: the connection broke before the response was there.
	ReasonConnectionLost = tool.ReasonConnectionLost
	// ReasonRedirectRefused: the server redirected the request to where it may not go.
	ReasonRedirectRefused = tool.ReasonRedirectRefused
	// ReasonManagerLost: the manager ended, or lost leadership, while the request was in progress.
	ReasonManagerLost = tool.ReasonManagerLost
	// ReasonPanicked: the function that stands in for the tool panicked. Package inprocess alone has such functions.
	ReasonPanicked = tool.ReasonPanicked
	// ReasonNoFunction: no function stands in for the tool in process.
	ReasonNoFunction = tool.ReasonNoFunction
	// ReasonSuspended: the Job is suspended.
	ReasonSuspended = tool.ReasonSuspended
)
