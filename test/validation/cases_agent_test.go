package validation_test

import "strings"

// agent is a patch that makes the smallest Tool a sub-agent with these fields.
func agent(fields string) string {
	return `spec: {client: null, agent: {` + fields + `}}`
}

const agentTimeout = "spec.agent.timeout rule timeout must be between 1s and 24h."

var agentToolCases = []ruleCase{
	{
		rule:     "spec rule exactly one of job, http, client and agent must be set.",
		accepted: agent(""),
		rejected: `spec: {agent: {}}`,
	},
	{
		rule:     "spec rule sideEffect is for tools other than agent: a sub-agent is started at most once.",
		accepted: strings.TrimSuffix(agent(""), "}") + `, policy: RequiresApproval, concurrencyClass: research}`,
		rejected: strings.TrimSuffix(agent(""), "}") + `, sideEffect: Pure}`,
	},
	{
		rule:     "spec.agent rule agentRef requires harnessRef: name both, or neither to use those of the calling Session.",
		accepted: agent(`harnessRef: {name: base}, agentRef: {name: lawyer}`),
		rejected: agent(`agentRef: {name: lawyer}`),
	},
	{
		rule:     "spec.agent.harnessRef required name",
		accepted: agent(`harnessRef: {name: base}`),
		rejected: agent(`harnessRef: {}`),
		message:  `spec.agent.harnessRef.name: Required value`,
	},
	{
		rule:     "spec.agent.agentRef required name",
		accepted: agent(`harnessRef: {name: base}, agentRef: {name: lawyer}`),
		rejected: agent(`harnessRef: {name: base}, agentRef: {}`),
		message:  `spec.agent.agentRef.name: Required value`,
	},
	{
		rule:     "spec.agent.retention enum",
		accepted: agent(`retention: Keep`),
		rejected: agent(`retention: Forever`),
		message:  `spec.agent.retention: Unsupported value: "Forever"`,
	},
	{
		rule:     "spec.agent.timeout pattern",
		accepted: agent(`timeout: 1h30m`),
		rejected: agent(`timeout: "30"`),
		message:  `spec.agent.timeout in body should match`,
	},
	{rule: agentTimeout, accepted: agent(`timeout: 1s`), rejected: agent(`timeout: 999ms`)},
	{rule: agentTimeout, accepted: agent(`timeout: 24h`), rejected: agent(`timeout: 24h1s`)},
}

// callOrigin is the origin of a sub-agent.
const callOrigin = `type: SubAgent, subAgent: {session: {name: demo, uid: a}, turn: {name: demo-1, uid: b}, step: 2, ` +
	`callID: 1-0, root: {name: demo, uid: a}, depth: 1, retention: Delete}`

// withOrigin is a patch with an origin.
func withOrigin(origin string) string {
	return `spec: {origin: {` + origin + `}}`
}

// taskOrigin is the origin of a Turn that delivers the end of a background task.
const taskOrigin = `type: Task, task: {id: 0123456789abcdef, session: {name: demo, uid: a}, ` +
	`turn: {name: demo-1, uid: b}, root: {name: demo-0, uid: c}}`

// taskOriginCases are those of Turns that deliver the ends of background tasks.
func taskOriginCases() []ruleCase {
	whole := withOrigin(taskOrigin)
	cases := []ruleCase{
		{
			rule:     "spec.origin rule task must be set with the type Task, and only with it.",
			accepted: whole,
			rejected: withOrigin(callOrigin + ", " + strings.TrimPrefix(taskOrigin, "type: Task, ")),
		},
		{
			rule:     "spec.origin.task.id pattern",
			accepted: whole,
			rejected: withOrigin(strings.Replace(taskOrigin, "0123456789abcdef", "0123456789abcdeF", 1)),
			message:  "spec.origin.task.id in body should match",
		},
	}
	for field, value := range map[string]string{
		"id": "id: 0123456789abcdef, ", "session": "session: {name: demo, uid: a}, ",
		"turn": "turn: {name: demo-1, uid: b}, ", "root": ", root: {name: demo-0, uid: c}",
	} {
		cases = append(cases, ruleCase{
			rule:     "spec.origin.task required " + field,
			accepted: whole,
			rejected: withOrigin(strings.Replace(taskOrigin, value, "", 1)),
			message:  "spec.origin.task." + field + ": Required value",
		})
	}
	for field, given := range map[string][2]string{
		"session": {"name: demo, ", "uid: a"}, "turn": {"name: demo-1, ", "uid: b"}, "root": {"name: demo-0, ", "uid: c"},
	} {
		for i, part := range []string{"name", "uid"} {
			object := field + ": {" + given[0] + given[1] + "}"
			cases = append(cases, ruleCase{
				rule:     "spec.origin.task." + field + " required " + part,
				accepted: whole,
				rejected: withOrigin(strings.Replace(taskOrigin, object, field+": {"+given[1-i]+"}", 1)),
				message:  "spec.origin.task." + field + "." + part + ": Required value",
			})
		}
	}
	return cases
}

// originCases are those of Sessions and of Turns.
func originCases() []ruleCase {
	whole := withOrigin(callOrigin)
	cases := []ruleCase{
		{
			rule:     "spec rule origin cannot be changed.",
			stored:   whole,
			accepted: unchanged,
			rejected: `spec: {origin: {subAgent: {callID: 1-1}}}`,
		},
		{
			rule:     "spec rule origin cannot be changed.",
			stored:   whole,
			accepted: unchanged,
			rejected: `spec: {origin: null}`,
		},
		{
			rule:     "spec.origin rule subAgent must be set with the type SubAgent, and only with it.",
			accepted: whole,
			rejected: withOrigin(`type: SubAgent`),
		},
		{
			rule:     "spec.origin required type",
			accepted: whole,
			rejected: withOrigin(strings.TrimPrefix(callOrigin, "type: SubAgent, ")),
			message:  `spec.origin.type: Required value`,
		},
		{
			rule:     "spec.origin.type enum",
			accepted: whole,
			rejected: withOrigin(strings.Replace(callOrigin, "type: SubAgent", "type: User", 1)),
			message:  `spec.origin.type: Unsupported value: "User"`,
		},
		{
			rule:     "spec.origin.subAgent.retention enum",
			accepted: withOrigin(strings.Replace(callOrigin, "retention: Delete", "retention: Keep", 1)),
			rejected: withOrigin(strings.Replace(callOrigin, "retention: Delete", "retention: Never", 1)),
			message:  `spec.origin.subAgent.retention: Unsupported value: "Never"`,
		},
	}
	for field, value := range map[string]string{
		"session": "session: {name: demo, uid: a}, ", "turn": "turn: {name: demo-1, uid: b}, ", "step": "step: 2, ",
		"callID": "callID: 1-0, ", "root": "root: {name: demo, uid: a}, ", "depth": "depth: 1, ",
		"retention": ", retention: Delete",
	} {
		cases = append(cases, ruleCase{
			rule:     "spec.origin.subAgent required " + field,
			accepted: whole,
			rejected: withOrigin(strings.Replace(callOrigin, value, "", 1)),
			message:  "spec.origin.subAgent." + field + ": Required value",
		})
	}
	for _, object := range []string{
		"session: {name: demo, uid: a}", "turn: {name: demo-1, uid: b}", "root: {name: demo, uid: a}",
	} {
		path, _, _ := strings.Cut(object, ":")
		name, uid, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(object, path+": {"), "}"), ", ")
		for field, rest := range map[string]string{"name": uid, "uid": name} {
			cases = append(cases, ruleCase{
				rule:     "spec.origin.subAgent." + path + " required " + field,
				accepted: whole,
				rejected: withOrigin(strings.Replace(callOrigin, object, path+": {"+rest+"}", 1)),
				message:  "spec.origin.subAgent." + path + "." + field + ": Required value",
			})
		}
	}
	return cases
}
