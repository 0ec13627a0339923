package validation_test

import "strings"

// leasing is a patch that makes the smallest Tool one with a lease. The fields replace those of the same names.
func leasing(fields string) string {
	return `spec: {client: null, sideEffect: Idempotent, http: {url: "https://example.org"}, lease: {` + fields + `}}`
}

// wholeLease has the fields of a lease.
const wholeLease = `provider: example.com, type: vm, externalIDPath: /id, duration: 1h, cleanup: {toolRef: {name: a}}`

// changedLease is a whole lease with another text for a part of it.
func changedLease(part, by string) string { return leasing(strings.Replace(wholeLease, part, by, 1)) }

var leaseCases = []ruleCase{
	{
		rule: "spec rule lease is for HTTP tools.", accepted: leasing(wholeLease),
		rejected: `spec: {client: null, sideEffect: Idempotent, job: {image: a, command: [a]}, lease: {` + wholeLease + `}}`,
	},
	{
		rule: "spec rule a tool that creates leases must have the sideEffect Idempotent: after a crash of the manager its " +
			"call is repeated with the same Idempotency-Key, so that no resource is lost.",
		accepted: leasing(wholeLease),
		rejected: strings.Replace(leasing(wholeLease), "sideEffect: Idempotent, ", "", 1),
	},
	{
		rule: "spec.lease rule cleanup must be set with externalIDFrom Result, and only with it.",
		accepted: `spec: {client: null, http: {url: "https://example.org"}, lease: {externalIDFrom: Arguments, ` +
			`provider: a, type: b, externalIDPath: /id, duration: 1h}}`,
		rejected: changedLease(", cleanup: {toolRef: {name: a}}", ""),
	},
	{
		rule:     "spec.lease rule cleanup must be set with externalIDFrom Result, and only with it.",
		accepted: leasing(wholeLease), rejected: leasing("externalIDFrom: Arguments, " + wholeLease),
	},
	{
		rule: "spec.lease.externalIDFrom enum", accepted: leasing("externalIDFrom: Result, " + wholeLease),
		rejected: leasing("externalIDFrom: Body, " + wholeLease),
		message:  `spec.lease.externalIDFrom: Unsupported value: "Body": supported values: "Result", "Arguments"`,
	},
	{
		rule: "spec.lease required provider", accepted: leasing(wholeLease),
		rejected: changedLease("provider: example.com, ", ""), message: "spec.lease.provider: Required value",
	},
	{
		rule: "spec.lease required type", accepted: leasing(wholeLease), rejected: changedLease("type: vm, ", ""),
		message: "spec.lease.type: Required value",
	},
	{
		rule: "spec.lease required externalIDPath", accepted: leasing(wholeLease),
		rejected: changedLease("externalIDPath: /id, ", ""), message: "spec.lease.externalIDPath: Required value",
	},
	{
		rule: "spec.lease required duration", accepted: leasing(wholeLease), rejected: changedLease("duration: 1h, ", ""),
		message: "spec.lease.duration: Required value",
	},
	{
		rule: "spec.lease.provider pattern", accepted: changedLease("example.com", "e2b"),
		rejected: changedLease("example.com", "E2B"), message: "spec.lease.provider in body should match",
	},
	{
		rule: "spec.lease.type pattern", accepted: changedLease("vm", "v-m"), rejected: changedLease("vm", `"v m"`),
		message: "spec.lease.type in body should match",
	},
	{
		rule: "spec.lease.externalIDPath pattern", accepted: changedLease("/id", "/a~1b/0"),
		rejected: changedLease("/id", "id"), message: "spec.lease.externalIDPath in body should match",
	},
	{
		rule: "spec.lease.duration pattern", accepted: changedLease("1h", "90m"), rejected: changedLease("1h", "1d"),
		message: "spec.lease.duration in body should match",
	},
	{
		rule: "spec.lease.duration rule duration must be between 1m and 720h.", accepted: changedLease("1h", "720h"),
		rejected: changedLease("1h", "721h"),
	},
	{
		rule: "spec.lease.duration rule duration must be between 1m and 720h.", accepted: changedLease("1h", "1m"),
		rejected: changedLease("1h", "59s"),
	},
	{
		rule: "spec.lease.cleanup required toolRef", accepted: leasing(wholeLease),
		rejected: changedLease("{toolRef: {name: a}}", "{}"), message: "spec.lease.cleanup.toolRef: Required value",
	},
	{
		rule: "spec.lease.cleanup.toolRef required name", accepted: leasing(wholeLease),
		rejected: changedLease("{name: a}", "{}"), message: "spec.lease.cleanup.toolRef.name: Required value",
	},
}
