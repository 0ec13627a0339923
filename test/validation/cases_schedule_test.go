package validation_test

import (
	"slices"
	"strings"
)

// scheduleOrigin is the origin of a Session or a Turn of a Schedule.
const scheduleOrigin = `type: Schedule, schedule: {schedule: {name: nightly, uid: a}, tick: "2031-01-02T03:04:00Z"}`

// scheduleOriginCases are those of the Sessions and the Turns of Schedules.
func scheduleOriginCases() []ruleCase {
	whole := withOrigin(scheduleOrigin)
	without := func(part, by string) string { return withOrigin(strings.Replace(scheduleOrigin, part, by, 1)) }
	const named = "{name: nightly, uid: a}"
	return []ruleCase{
		{
			rule:     "spec.origin rule schedule must be set with the type Schedule, and only with it.",
			accepted: whole, rejected: withOrigin(`type: Schedule`),
		},
		{
			rule: "spec.origin.schedule required schedule", accepted: whole,
			rejected: without("schedule: "+named+", ", ""), message: "spec.origin.schedule.schedule: Required value",
		},
		{
			rule: "spec.origin.schedule required tick", accepted: whole,
			rejected: without(`, tick: "2031-01-02T03:04:00Z"`, ""), message: "spec.origin.schedule.tick: Required value",
		},
		{
			rule: "spec.origin.schedule.tick format", accepted: whole,
			rejected: without("T03:04:00Z", ""), message: "spec.origin.schedule.tick in body must be of type date-time",
		},
		{
			rule: "spec.origin.schedule.schedule required name", accepted: whole,
			rejected: without(named, "{uid: a}"), message: "spec.origin.schedule.schedule.name: Required value",
		},
		{
			rule: "spec.origin.schedule.schedule required uid", accepted: whole,
			rejected: without(named, "{name: nightly}"), message: "spec.origin.schedule.schedule.uid: Required value",
		},
	}
}

// nested are cases of the fields of a spec, for a field that has them too. before and after are put around the fields.
func nested(cases []ruleCase, of, path, before, after string) []ruleCase {
	var found []ruleCase
	for _, c := range cases {
		if rest := strings.TrimPrefix(c.rule, of); rest == c.rule || c.stored != "" {
			continue
		}
		put := func(patch string) string {
			return "spec: {" + before + strings.TrimSuffix(strings.TrimPrefix(patch, "spec: {"), "}") + after + "}"
		}
		found = append(found, ruleCase{
			rule: "spec." + path + strings.TrimPrefix(c.rule, "spec."), accepted: put(c.accepted), rejected: put(c.rejected),
			message: strings.ReplaceAll(c.message, "spec.", "spec."+path),
		})
	}
	return found
}

// timed is a Schedule with another time, and perSession one that creates Sessions.
func timed(fields string) string { return `spec: {schedule: null, ` + fields + `}` }

func perSession(fields string) string {
	return `spec: {sessionRef: null, sessionTemplate: {harnessRef: {name: base}, ` + fields + `}}`
}

func scheduleCases() []ruleCase {
	const (
		when  = "spec rule exactly one of schedule, for repeated times, and at, for a single time, must be set."
		where = "spec rule exactly one of sessionRef, for a Session that exists, and sessionTemplate, for a Session per " +
			"tick, must be set."
		five = "spec.schedule rule schedule must have five fields, such as 0 9 * * 1-5, or be @hourly, @daily, @weekly, " +
			"@monthly or @yearly. Set the time zone in timeZone."
		fixed = "spec rule at cannot be changed: a Schedule with at creates one Turn. Create a Schedule with a new name."
		name  = "rule the names of Turns begin with that of their Schedule: it has at most 45 characters."
		own   = "spec.sessionTemplate.labels rule labels of capstan.dev and of app.kubernetes.io are reserved."
		valid = "spec.sessionTemplate.labels rule labels must have valid keys and values."
		steer = "spec rule delivery Steer is for the Session of a sessionRef: a new Session has no running Turn."
		once  = `at: "2031-01-02T03:04:05+01:00"`
	)
	cases := []ruleCase{
		{rule: "required spec", accepted: unchanged, rejected: `spec: null`, message: `spec: Required value`},
		{
			rule: name, accepted: `metadata: {name: ` + strings.Repeat("t", 45) + `}`,
			rejected: `metadata: {name: ` + strings.Repeat("t", 46) + `}`,
		},
		{
			rule:     "spec required turn",
			accepted: unchanged,
			rejected: `spec: {turn: null}`,
			message:  `spec.turn: Required value`,
		},
		{rule: when, accepted: timed(once), rejected: `spec: {` + once + `}`},
		{rule: when, accepted: unchanged, rejected: `spec: {schedule: null}`},
		{rule: fixed, stored: timed(once), accepted: unchanged, rejected: `spec: {at: "2031-01-02T03:04:06+01:00"}`},
		{rule: fixed, stored: timed(once), accepted: unchanged, rejected: `spec: {at: null, schedule: "@daily"}`},
		{rule: fixed, stored: unchanged, accepted: `spec: {schedule: "@daily"}`, rejected: timed(once)},
		{
			rule: where, accepted: `spec: {sessionRef: null, sessionTemplate: {harnessRef: {name: base}}}`,
			rejected: `spec: {sessionTemplate: {harnessRef: {name: base}}}`,
		},
		{rule: where, accepted: unchanged, rejected: `spec: {sessionRef: null}`},
		{
			rule:     "spec rule timeZone is for schedule. Write at with its offset from UTC.",
			accepted: `spec: {timeZone: Europe/Berlin}`, rejected: timed(once + `, timeZone: Europe/Berlin`),
		},
		{
			rule: steer, accepted: `spec: {turn: {delivery: Steer}}`,
			rejected: `spec: {sessionRef: null, sessionTemplate: {harnessRef: {name: base}}, turn: {delivery: Steer}}`,
		},
		{
			rule: "spec.at format", accepted: timed(once), rejected: timed(`at: tomorrow`),
			message: "spec.at in body must be of type date-time",
		},
		{
			rule: "spec.concurrencyPolicy enum", accepted: `spec: {concurrencyPolicy: Forbid}`,
			rejected: `spec: {concurrencyPolicy: Never}`, message: `spec.concurrencyPolicy: Unsupported value: "Never"`,
		},
		{rule: five, accepted: `spec: {schedule: "*/5 0-6 1,15 JAN-MAR ?"}`, rejected: `spec: {schedule: "0 0 * * * *"}`},
		{rule: five, accepted: `spec: {schedule: "@weekly"}`, rejected: `spec: {schedule: "@every 1h"}`},
		{rule: five, accepted: `spec: {schedule: "0 0 * * 7"}`, rejected: `spec: {schedule: "TZ=UTC 0 0 * * *"}`},
		{
			rule: "spec.sessionRef required name", accepted: unchanged, rejected: `spec: {sessionRef: {name: null}}`,
			message: `spec.sessionRef.name: Required value`,
		},
		{
			rule: "spec.sessionTemplate required harnessRef", accepted: perSession(``),
			rejected: `spec: {sessionRef: null, sessionTemplate: {title: A}}`,
			message:  `spec.sessionTemplate.harnessRef: Required value`,
		},
		{
			rule: "spec.sessionTemplate.harnessRef required name", accepted: perSession(``),
			rejected: `spec: {sessionRef: null, sessionTemplate: {harnessRef: {}}}`,
			message:  `spec.sessionTemplate.harnessRef.name: Required value`,
		},
		{
			rule: "spec.sessionTemplate.agentRef required name", accepted: perSession(`agentRef: {name: a}`),
			rejected: perSession(`agentRef: {}`), message: `spec.sessionTemplate.agentRef.name: Required value`,
		},
		{
			rule: "spec.sessionTemplate.journalLimit pattern", accepted: perSession(`journalLimit: 1Mi`),
			rejected: perSession(`journalLimit: much`), message: `spec.sessionTemplate.journalLimit`,
		},
		{
			rule:     "spec.sessionTemplate.journalLimit rule journalLimit must be between 64Ki and 1Gi.",
			accepted: perSession(`journalLimit: 64Ki`), rejected: perSession(`journalLimit: 2Gi`),
		},
		{rule: own, accepted: perSession(`labels: {team: a}`), rejected: perSession(`labels: {capstan.dev/task: a}`)},
		{rule: own, accepted: perSession(``), rejected: perSession(`labels: {app.kubernetes.io/managed-by: capstan}`)},
		{
			rule:     valid,
			accepted: perSession(`labels: {example.org/team: A_b.c}`),
			rejected: perSession(`labels: {team: "a b"}`),
		},
		{rule: valid, accepted: perSession(`labels: {team: ""}`), rejected: perSession(`labels: {-team: a}`)},
		{
			rule: "spec.sessionTemplate.locale pattern", accepted: perSession(`locale: de-CH`),
			rejected: perSession(`locale: de_CH`), message: `spec.sessionTemplate.locale in body should match`,
		},
		{
			rule: "spec.timeZone pattern", accepted: `spec: {timeZone: America/Argentina/Buenos_Aires}`,
			rejected: `spec: {timeZone: ../Berlin}`, message: `spec.timeZone in body should match`,
		},
		{
			rule: "spec.turn.delivery enum", accepted: `spec: {turn: {delivery: Steer}}`,
			rejected: `spec: {turn: {delivery: Later}}`, message: `spec.turn.delivery: Unsupported value: "Later"`,
		},
		{
			rule:     "spec.turn rule exactly one of input, for text, and message, for text and images, must be set.",
			accepted: unchanged, rejected: `spec: {turn: {input: null}}`,
		},
	}
	const template = "sessionRef: null, sessionTemplate: {harnessRef: {name: base}, "
	return slices.Concat(cases,
		nested(layerCases, "spec.networkAccess", "sessionTemplate.", template, "}"),
		nested(turnCases, "spec.controls", "turn.", "turn: {", "}"),
		nested(turnCases, "spec.waitTimeout", "turn.", "turn: {", "}"),
		nested(messageCases, "spec.message", "turn.", "turn: {", "}"),
		blueprintReferenceCases("sessionTemplate.", template, "}"),
	)
}

var scheduleSpecimens = []specimen{
	{kind: "Schedule", name: "complete", spec: `
  schedule: 0 9 * * 1-5
  timeZone: Europe/Berlin
  concurrencyPolicy: Forbid
  startingDeadlineSeconds: 600
  suspend: true
  successfulTurnsHistoryLimit: 5
  failedTurnsHistoryLimit: 2
  submittedBy: ann
  sessionTemplate:
    labels: {team: a}
    harnessRef: {name: base}
    agentRef: {name: lawyer}
    blueprint: {capability: research, name: reader, config: {depth: 2}, maxRisk: Medium}
    title: The harbour at night
    locale: de-CH
    maxIterations: 5
    journalLimit: 1Mi
    networkAccess:
      allowed: [api.example.org]
      blocked: [inside.example.com]
      exemptTools: [{name: word-count}]
  turn:
    input: What happened overnight?
    controls: {modelRef: {name: simulated}, locale: de-CH, reasoningEffort: Low}
    delivery: Queue
    activeDeadlineSeconds: 600
    waitTimeout: 30m0s
`},
	{kind: "Schedule", name: "once", spec: `
  at: "2031-01-02T03:04:05Z"
  concurrencyPolicy: Allow
  successfulTurnsHistoryLimit: 3
  failedTurnsHistoryLimit: 1
  sessionRef: {name: demo}
  turn:
    delivery: Steer
    message:
      content:
      - text: Look at this.
`},
	{kind: "Schedule", name: "picture", spec: `
  schedule: "@daily"
  sessionRef: {name: demo}
  turn: {delivery: Queue, message: {content: [{image: {mediaType: image/gif, data: R0lGODlhAQABAAAAACw=}}]}}
`},
	{kind: "Schedule", name: "stored", spec: `
  at: "2031-01-02T03:04:05Z"
  sessionRef: {name: demo}
  turn: {delivery: Queue, message: {content: [{imageRef: {id: img-0123456789abcdef0123456789abcdef}}]}}
`},
	{kind: "Schedule", name: "address", spec: `
  schedule: "@daily"
  sessionRef: {name: demo}
  turn: {delivery: Queue, message: {content: [{image: {mediaType: image/png, url: "https://example.org/harbour.png"}}]}}
`},
}
