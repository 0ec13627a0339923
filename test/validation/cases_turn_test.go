package validation_test

import "strings"

// The rules that keep the fields of a Turn as they are.
const (
	sessionRefIsKept  = "spec rule sessionRef cannot be changed. Create a Turn with a new name."
	inputIsKept       = "spec rule input cannot be changed. Create a Turn with a new name."
	messageIsKept     = "spec rule message cannot be changed. Create a Turn with a new name."
	controlsAreKept   = "spec rule controls cannot be changed. Create a Turn with a new name."
	deliveryIsKept    = "spec rule delivery cannot be changed. Create a Turn with a new name."
	traceParentIsKept = "spec rule traceParent cannot be changed. Create a Turn with a new name."
	submittedByIsKept = "spec rule submittedBy cannot be changed. Create a Turn with a new name."

	activeDeadlineIsKept = "spec rule activeDeadlineSeconds cannot be changed. " +
		"Set desiredState to Cancelled to end the Turn now."
	waitTimeoutIsKept = "spec rule waitTimeout cannot be changed. " +
		"Set desiredState to Cancelled to end the Turn now."
)

const steerIsNotSuspended = "spec rule a message with delivery Steer cannot be suspended. Use delivery Queue, " +
	"or send it when it is due."

const zeroTraceParent = "spec.traceParent rule a trace id or a span id of zeros is invalid. " +
	"Leave traceParent out to start a new trace."

// traced is a trace context.
const traced = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// digest is one that a call could have.
var digest = strings.Repeat("0123456789abcdef", 4)

// answering are the fields of a ToolResult with input, beside that.
var answering = `turnRef: {uid: u}, result: null, callDigest: ` + digest + `, submittedBy: ann`

var turnCases = []ruleCase{
	{
		rule:     "required spec",
		accepted: unchanged,
		rejected: `spec: null`,
		message:  `spec: Required value`,
	},
	{
		rule:     "rule the name of a Turn has at most 63 characters.",
		accepted: `metadata: {name: ` + strings.Repeat("t", 63) + `}`,
		rejected: `metadata: {name: ` + strings.Repeat("t", 64) + `}`,
	},
	{
		rule:     "spec required sessionRef",
		accepted: unchanged,
		rejected: `spec: {sessionRef: null}`,
		message:  `spec.sessionRef: Required value`,
	},
	{
		rule:     "spec.sessionRef required name",
		accepted: unchanged,
		rejected: `spec: {sessionRef: {name: null}}`,
		message:  `spec.sessionRef.name: Required value`,
	},
	{
		rule:     "spec rule exactly one of input, for text, and message, for text and images, must be set.",
		accepted: unchanged,
		rejected: `spec: {input: null}`,
	},
	{
		rule:     "spec rule exactly one of input, for text, and message, for text and images, must be set.",
		accepted: `spec: {input: null, message: {content: [{text: Hello}]}}`,
		rejected: `spec: {message: {content: [{text: Hello}]}}`,
	},
	{
		rule:     "spec.controls.locale pattern",
		accepted: `spec: {controls: {locale: zh-Hant-TW}}`,
		rejected: `spec: {controls: {locale: de_CH}}`,
		message:  `spec.controls.locale in body should match`,
	},
	{
		rule:     "spec.controls.reasoningEffort enum",
		accepted: `spec: {controls: {reasoningEffort: None}}`,
		rejected: `spec: {controls: {reasoningEffort: Extreme}}`,
		message: `spec.controls.reasoningEffort: Unsupported value: "Extreme": supported values: "None", "Low", ` +
			`"Medium", "High"`,
	},
	{
		rule:     "spec.controls.modelRef required name",
		accepted: `spec: {controls: {modelRef: {name: simulated}}}`,
		rejected: `spec: {controls: {modelRef: {}}}`,
		message:  `spec.controls.modelRef.name: Required value`,
	},
	{
		rule:     "spec.desiredState enum",
		accepted: `spec: {desiredState: Cancelled}`,
		rejected: `spec: {desiredState: Paused}`,
		message:  `spec.desiredState: Unsupported value: "Paused": supported values: "Running", "Cancelled"`,
	},
	{
		rule:     "spec.delivery enum",
		accepted: `spec: {delivery: Steer}`,
		rejected: `spec: {delivery: Interrupt}`,
		message:  `spec.delivery: Unsupported value: "Interrupt": supported values: "Queue", "Steer"`,
	},
	{
		rule:     deliveryIsKept,
		stored:   `spec: {delivery: Steer}`,
		accepted: `spec: {delivery: Steer}`,
		rejected: `spec: {delivery: Queue}`,
	},
	{
		rule:     deliveryIsKept,
		stored:   unchanged,
		accepted: `spec: {delivery: Queue}`,
		rejected: `spec: {delivery: Steer}`,
	},
	{
		rule:     inputIsKept,
		stored:   `spec: {suspend: true}`,
		accepted: `spec: {suspend: false}`,
		rejected: `spec: {suspend: false, input: Something else.}`,
	},
	{
		rule:     inputIsKept,
		stored:   unchanged,
		accepted: `spec: {suspend: true}`,
		rejected: `spec: {suspend: true, input: Something else.}`,
	},
	{
		rule:     steerIsNotSuspended,
		accepted: `spec: {delivery: Steer, suspend: false}`,
		rejected: `spec: {delivery: Steer, suspend: true}`,
	},
	{
		rule:     traceParentIsKept,
		stored:   `spec: {traceParent: ` + traced + `}`,
		accepted: `spec: {traceParent: ` + traced + `}`,
		rejected: `spec: {traceParent: ` + traced[:53] + `00}`,
	},
	{
		rule:     traceParentIsKept,
		stored:   unchanged,
		accepted: `spec: {desiredState: Cancelled}`,
		rejected: `spec: {traceParent: ` + traced + `}`,
	},
	{
		rule:     "spec.traceParent pattern",
		accepted: `spec: {traceParent: ` + traced + `}`,
		rejected: `spec: {traceParent: ` + strings.ToUpper(traced) + `}`,
		message:  `spec.traceParent in body should match`,
	},
	{
		rule:     zeroTraceParent,
		accepted: `spec: {traceParent: ` + traced + `}`,
		rejected: `spec: {traceParent: 00-00000000000000000000000000000000-b7ad6b7169203331-01}`,
	},
	{
		rule:     zeroTraceParent,
		accepted: `spec: {traceParent: ` + traced + `}`,
		rejected: `spec: {traceParent: 00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01}`,
	},
	{
		rule:     submittedByIsKept,
		stored:   `spec: {submittedBy: ann}`,
		accepted: `spec: {submittedBy: ann}`,
		rejected: `spec: {submittedBy: bob}`,
	},
	{
		rule:     submittedByIsKept,
		stored:   unchanged,
		accepted: `spec: {desiredState: Cancelled}`,
		rejected: `spec: {submittedBy: ann}`,
	},
	{
		rule:     inputIsKept,
		stored:   unchanged,
		accepted: `spec: {desiredState: Cancelled}`,
		rejected: `spec: {input: Something else.}`,
	},
	{
		rule:     sessionRefIsKept,
		stored:   unchanged,
		accepted: `metadata: {labels: {team: a}}`,
		rejected: `spec: {sessionRef: {name: other}}`,
	},
	{
		rule:     controlsAreKept,
		stored:   unchanged,
		accepted: unchanged,
		rejected: `spec: {controls: {modelRef: {name: simulated}}}`,
	},
	{
		rule:     controlsAreKept,
		stored:   `spec: {controls: {modelRef: {name: simulated}}}`,
		accepted: `spec: {desiredState: Cancelled}`,
		rejected: `spec: {controls: null}`,
	},
	{
		rule:     controlsAreKept,
		stored:   `spec: {controls: {modelRef: {name: simulated}}}`,
		accepted: unchanged,
		rejected: `spec: {controls: {modelRef: {name: other}}}`,
	},
	{
		rule:     controlsAreKept,
		stored:   `spec: {controls: {modelRef: {name: simulated}}}`,
		accepted: unchanged,
		rejected: `spec: {controls: {modelRef: null}}`,
	},
	{
		rule:     controlsAreKept,
		stored:   `spec: {controls: {locale: de-CH}}`,
		accepted: unchanged,
		rejected: `spec: {controls: {locale: fr-CH}}`,
	},
	{
		rule:     activeDeadlineIsKept,
		stored:   `spec: {activeDeadlineSeconds: 60}`,
		accepted: `spec: {ttlSecondsAfterFinished: 5}`,
		rejected: `spec: {activeDeadlineSeconds: 61}`,
	},
	{
		rule:     activeDeadlineIsKept,
		stored:   `spec: {activeDeadlineSeconds: 60, ttlSecondsAfterFinished: 5}`,
		accepted: `spec: {ttlSecondsAfterFinished: null}`,
		rejected: `spec: {activeDeadlineSeconds: null}`,
	},
	{
		rule:     waitTimeoutIsKept,
		stored:   `spec: {waitTimeout: 60s}`,
		accepted: `spec: {desiredState: Cancelled}`,
		rejected: `spec: {waitTimeout: 61s}`,
	},
	{
		rule:     waitTimeoutIsKept,
		stored:   unchanged,
		accepted: unchanged,
		rejected: `spec: {waitTimeout: 60s}`,
	},
	{
		rule:     "spec.waitTimeout pattern",
		accepted: `spec: {waitTimeout: 1h30m}`,
		rejected: `spec: {waitTimeout: 1d}`,
		message:  `spec.waitTimeout in body should match`,
	},
	{
		rule:     "spec.waitTimeout rule waitTimeout must be between 1s and 8760h.",
		accepted: `spec: {waitTimeout: 1s}`,
		rejected: `spec: {waitTimeout: 999ms}`,
	},
	{
		rule:     "spec.waitTimeout rule waitTimeout must be between 1s and 8760h.",
		accepted: `spec: {waitTimeout: 8760h}`,
		rejected: `spec: {waitTimeout: 8760h1s}`,
	},
	{
		rule:     "spec rule a cancelled Turn cannot run again. Create a Turn with a new name.",
		stored:   `spec: {desiredState: Cancelled}`,
		accepted: `metadata: {annotations: {note: "why it was cancelled"}}`,
		rejected: `spec: {desiredState: Running}`,
	},
	{
		rule:     "spec rule a cancelled Turn cannot run again. Create a Turn with a new name.",
		stored:   `spec: {desiredState: Cancelled}`,
		accepted: `spec: {desiredState: Cancelled}`,
		rejected: `spec: {desiredState: null}`,
	},
}

var toolResultCases = []ruleCase{
	{
		rule:     "required spec",
		accepted: unchanged,
		rejected: `spec: null`,
		message:  `spec: Required value`,
	},
	{
		rule:     "spec required turnRef",
		accepted: unchanged,
		rejected: `spec: {turnRef: null}`,
		message:  `spec.turnRef: Required value`,
	},
	{
		rule:     "spec.turnRef required name",
		accepted: unchanged,
		rejected: `spec: {turnRef: {name: null, uid: 0b5f7a9c-2d35-4c0f-8a1e-5f3f6f0a1c11}}`,
		message:  `spec.turnRef.name: Required value`,
	},
	{
		rule:     "spec required callID",
		accepted: unchanged,
		rejected: `spec: {callID: null}`,
		message:  `spec.callID: Required value`,
	},
	{
		rule:     "spec.callID pattern",
		accepted: `spec: {callID: 10-63}`,
		rejected: `spec: {callID: call_abc}`,
		message:  `spec.callID in body should match '^[1-9]`,
	},
	{
		rule:     "spec.callID pattern",
		accepted: `spec: {callID: 2-10}`,
		rejected: `spec: {callID: 2-01}`,
		message:  `spec.callID in body should match '^[1-9]`,
	},
	{
		rule:     "spec rule exactly one of result, error, decision and input must be set.",
		accepted: `spec: {result: ""}`,
		rejected: `spec: {result: null}`,
	},
	{
		rule:     "spec rule exactly one of result, error, decision and input must be set.",
		accepted: `spec: {result: null, error: The user went away.}`,
		rejected: `spec: {result: done, error: The user went away.}`,
	},
	{
		rule:     "spec rule exactly one of result, error, decision and input must be set.",
		accepted: `spec: {turnRef: {uid: u}, result: null, decision: Approve, callDigest: ` + digest + `, submittedBy: ann}`,
		rejected: `spec: {turnRef: {uid: u}, decision: Approve, callDigest: ` + digest + `, submittedBy: ann}`,
	},
	{
		rule:     "spec rule exactly one of result, error, decision and input must be set.",
		accepted: `spec: {turnRef: {uid: u}, result: null, decision: Reject, callDigest: ` + digest + `, submittedBy: ann}`,
		rejected: `spec: {turnRef: {uid: u}, result: null, error: The user went away., decision: Reject, callDigest: ` +
			digest + `, submittedBy: ann}`,
	},
	{
		rule:     "spec rule a decision requires submittedBy, your own user name (kubectl auth whoami).",
		accepted: `spec: {turnRef: {uid: u}, result: null, decision: Reject, callDigest: ` + digest + `, submittedBy: ann}`,
		rejected: `spec: {turnRef: {uid: u}, result: null, decision: Reject, callDigest: ` + digest + `}`,
	},
	{
		rule: "spec rule a decision requires turnRef.uid and callDigest: metadata.uid of the Turn, and callDigest of " +
			"the call in its status.toolCalls.",
		accepted: `spec: {turnRef: {uid: u}, result: null, decision: Reject, callDigest: ` + digest + `, submittedBy: ann}`,
		rejected: `spec: {turnRef: {uid: u}, result: null, decision: Reject, submittedBy: ann}`,
	},
	{
		rule: "spec rule a decision requires turnRef.uid and callDigest: metadata.uid of the Turn, and callDigest of " +
			"the call in its status.toolCalls.",
		accepted: `spec: {turnRef: {uid: u}, result: null, decision: Approve, callDigest: ` + digest + `, submittedBy: ann}`,
		rejected: `spec: {result: null, decision: Approve, callDigest: ` + digest + `, submittedBy: ann}`,
	},
	{
		rule: "spec rule a decision requires turnRef.uid and callDigest: metadata.uid of the Turn, and callDigest of " +
			"the call in its status.toolCalls.",
		accepted: unchanged,
		rejected: `spec: {turnRef: {uid: ""}, result: null, decision: Approve, callDigest: ` + digest + `, submittedBy: ann}`,
	},
	{
		rule: "spec rule reason is for the decision Reject.",
		accepted: `spec: {turnRef: {uid: u}, result: null, decision: Reject, reason: Too dear, callDigest: ` + digest +
			`, submittedBy: ann}`,
		rejected: `spec: {turnRef: {uid: u}, result: null, decision: Approve, reason: Too dear, callDigest: ` + digest +
			`, submittedBy: ann}`,
	},
	{
		rule:     "spec rule reason is for the decision Reject.",
		accepted: unchanged,
		rejected: `spec: {reason: Too dear}`,
	},
	{
		rule:     "spec rule turnSubmittedBy is for decisions.",
		accepted: unchanged,
		rejected: `spec: {turnSubmittedBy: ann}`,
	},
	{
		rule:     "spec rule turnSteeredBy is for decisions with turnSubmittedBy.",
		accepted: unchanged,
		rejected: `spec: {turnSteeredBy: [ann]}`,
	},
	{
		rule:     "spec rule callDigest is for decisions and input.",
		accepted: unchanged,
		rejected: `spec: {callDigest: ` + digest + `}`,
	},
	{
		rule:     "spec rule exactly one of result, error, decision and input must be set.",
		accepted: `spec: {` + answering + `, input: {id: size, action: Decline}}`,
		rejected: `spec: {turnRef: {uid: u}, callDigest: ` + digest +
			`, submittedBy: ann, input: {id: size, action: Decline}}`,
	},
	{
		rule: "spec rule input requires turnRef.uid and callDigest: metadata.uid of the Turn, and callDigest of the call " +
			"in its status.toolCalls.",
		accepted: `spec: {` + answering + `, input: {id: size, action: Accept, content: {size: large}}}`,
		rejected: `spec: {turnRef: {uid: u}, result: null, submittedBy: ann, input: {id: size, action: Accept}}`,
	},
	{
		rule: "spec rule input requires turnRef.uid and callDigest: metadata.uid of the Turn, and callDigest of the call " +
			"in its status.toolCalls.",
		accepted: unchanged,
		rejected: `spec: {result: null, callDigest: ` + digest + `, submittedBy: ann, input: {id: size, action: Accept}}`,
	},
	{
		rule:     "spec rule input requires submittedBy, your own user name (kubectl auth whoami).",
		accepted: unchanged,
		rejected: `spec: {turnRef: {uid: u}, result: null, callDigest: ` + digest + `, input: {id: size, action: Accept}}`,
	},
	{
		rule:     "spec.input required id",
		accepted: unchanged,
		rejected: `spec: {` + answering + `, input: {action: Cancel}}`,
		message:  `spec.input.id: Required value`,
	},
	{
		rule:     "spec.input required action",
		accepted: unchanged,
		rejected: `spec: {` + answering + `, input: {id: size}}`,
		message:  `spec.input.action: Required value`,
	},
	{
		rule:     "spec.input rule content is for action Accept.",
		accepted: `spec: {` + answering + `, input: {id: size, action: Cancel}}`,
		rejected: `spec: {` + answering + `, input: {id: size, action: Cancel, content: {size: large}}}`,
	},
	{
		rule:     "spec.input.action enum",
		accepted: `spec: {` + answering + `, input: {id: size, action: Accept}}`,
		rejected: `spec: {` + answering + `, input: {id: size, action: Later}}`,
		message:  `spec.input.action: Unsupported value: "Later": supported values: "Accept", "Decline", "Cancel"`,
	},
	{
		rule:     "spec.callDigest pattern",
		accepted: `spec: {turnRef: {uid: u}, result: null, decision: Reject, callDigest: ` + digest + `, submittedBy: ann}`,
		rejected: `spec: {turnRef: {uid: u}, result: null, decision: Reject, callDigest: A` + digest[1:] +
			`, submittedBy: ann}`,
		message: `spec.callDigest in body should match '^[0-9a-f]{64}$'`,
	},
	{
		rule:     "spec.decision enum",
		accepted: `spec: {turnRef: {uid: u}, result: null, decision: Reject, callDigest: ` + digest + `, submittedBy: ann}`,
		rejected: `spec: {turnRef: {uid: u}, result: null, decision: Later, callDigest: ` + digest + `, submittedBy: ann}`,
		message:  `spec.decision: Unsupported value: "Later": supported values: "Approve", "Reject"`,
	},
	{
		rule:     "spec rule a ToolResult cannot be changed. Create one with a new name.",
		stored:   unchanged,
		accepted: `metadata: {labels: {team: a}}`,
		rejected: `spec: {result: something else}`,
	},
}
