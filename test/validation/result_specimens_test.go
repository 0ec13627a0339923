package validation_test

// resultSpecimens are the specimens of the kind ToolResult.
var resultSpecimens = []specimen{
	{kind: "ToolResult", name: "result", spec: `
  turnRef: {name: demo-1, uid: 0b5f7a9c-2d35-4c0f-8a1e-5f3f6f0a1c11}
  callID: 1-0
  result: "5"
`},
	{kind: "ToolResult", name: "error", spec: `
  turnRef: {name: demo-1}
  callID: 12-3
  error: The user went away.
  submittedBy: ann@example.org
`},
	{kind: "ToolResult", name: "input", spec: `
  turnRef: {name: demo-1, uid: 0b5f7a9c-2d35-4c0f-8a1e-5f3f6f0a1c11}
  callID: 1-0
  callDigest: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
  input: {id: size, action: Accept, content: {size: large, count: 2, gift: true, colours: [red]}}
  submittedBy: ann@example.org
`},
	{kind: "ToolResult", name: "decision", spec: `
  turnRef: {name: demo-1, uid: 0b5f7a9c-2d35-4c0f-8a1e-5f3f6f0a1c11}
  callID: 1-0
  callDigest: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
  decision: Approve
  turnSubmittedBy: bob@example.org
  turnSteeredBy: [carl@example.org]
  submittedBy: ann@example.org
`},
	{kind: "ToolResult", name: "rejection", spec: `
  turnRef: {name: demo-1, uid: 0b5f7a9c-2d35-4c0f-8a1e-5f3f6f0a1c11}
  callID: 1-0
  callDigest: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
  decision: Reject
  reason: It is too dear.
  submittedBy: ann@example.org
`},
}
