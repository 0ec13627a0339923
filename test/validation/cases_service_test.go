package validation_test

import "strings"

// servedBy is a Model of provider OpenAI with further fields in its spec.
func servedBy(fields string) string {
	return "spec: {provider: OpenAI, model: qwen, simulation: null, " + fields + "}"
}

// serverWithoutURL is an MCPServer without a url.
func serverWithoutURL(fields string) string { return served("url: null, " + fields) }

// requestTo is an HTTP Tool with fields.
func requestTo(fields string) string { return "spec: {client: null, http: {" + fields + "}}" }

const (
	aService = "serviceRef: {name: models, port: 80}"
	oneOf    = " rule exactly one of url and serviceRef must be set."
	overTLS  = "spec rule the identity AgentToken is only sent over HTTPS."
)

// endpointCases are those of the serviceRef and the caBundle at a path, of objects with these fields.
func endpointCases(path string, with func(fields string) string) []ruleCase {
	service := func(fields string) string { return with("serviceRef: {" + fields + "}") }
	bundle := func(fields string) string { return with(aService + ", caBundle: {" + fields + "}") }
	at, ca := path+"serviceRef", path+"caBundle"
	good := service("name: models, port: 80, scheme: HTTPS, path: /v1/a~b%20c")
	return []ruleCase{
		{rule: at + " required name", accepted: good, rejected: service("port: 80"), message: at + ".name: Required value"},
		{
			rule: at + " required port", accepted: good, rejected: service("name: models"),
			message: at + ".port: Required value",
		},
		{
			rule: at + ".name pattern", accepted: service("name: m-1, port: 80"), rejected: service("name: a.b, port: 80"),
			message: at + ".name in body should match",
		},
		{
			rule: at + ".scheme enum", accepted: service("name: m, port: 80, scheme: HTTP"),
			rejected: service("name: m, port: 80, scheme: http"), message: at + ".scheme: Unsupported value",
		},
		{
			rule: at + ".path pattern", accepted: good, rejected: service("name: m, port: 80, path: v1"),
			message: at + ".path in body should match",
		},
		{
			rule: at + ".path pattern", accepted: good, rejected: service(`name: m, port: 80, path: "/v1?a=b"`),
			message: at + ".path in body should match",
		},
		{
			rule:     at + ".path rule path has a % that is not followed by two hexadecimal digits.",
			accepted: good, rejected: service("name: m, port: 80, path: /v1%2"),
		},
		{
			rule:     ca + " rule exactly one of configMapKeyRef and secretKeyRef must be set.",
			accepted: bundle("configMapKeyRef: {name: ca, key: ca.crt}"),
			rejected: bundle("configMapKeyRef: {name: ca, key: ca.crt}, secretKeyRef: {name: ca, key: ca.crt}"),
		},
		{
			rule:     ca + " rule exactly one of configMapKeyRef and secretKeyRef must be set.",
			accepted: bundle("secretKeyRef: {name: ca, key: ca.crt}"), rejected: bundle(""),
		},
		{
			rule: ca + ".configMapKeyRef required name", accepted: bundle("configMapKeyRef: {name: ca, key: ca.crt}"),
			rejected: bundle("configMapKeyRef: {key: ca.crt}"), message: ca + ".configMapKeyRef.name: Required value",
		},
		{
			rule: ca + ".configMapKeyRef required key", accepted: bundle("configMapKeyRef: {name: ca, key: ca.crt}"),
			rejected: bundle("configMapKeyRef: {name: ca}"), message: ca + ".configMapKeyRef.key: Required value",
		},
		{
			rule: ca + ".secretKeyRef required name", accepted: bundle("secretKeyRef: {name: ca, key: ca.crt}"),
			rejected: bundle("secretKeyRef: {key: ca.crt}"), message: ca + ".secretKeyRef.name: Required value",
		},
		{
			rule: ca + ".secretKeyRef required key", accepted: bundle("secretKeyRef: {name: ca, key: ca.crt}"),
			rejected: bundle("secretKeyRef: {name: ca}"), message: ca + ".secretKeyRef.key: Required value",
		},
		{
			rule: ca + ".secretKeyRef.key pattern", accepted: bundle("secretKeyRef: {name: ca, key: ca.crt}"),
			rejected: bundle("secretKeyRef: {name: ca, key: a b}"), message: ca + ".secretKeyRef.key in body should match",
		},
	}
}

var modelEndpointCases = append(endpointCases("spec.", servedBy),
	ruleCase{
		rule:     "spec rule at most one of baseURL and serviceRef may be set.",
		accepted: servedBy(aService), rejected: servedBy(aService + `, baseURL: "https://models.example.org/v1"`),
	},
	ruleCase{
		rule:     "spec rule provider Simulated uses no network: leave serviceRef and caBundle out.",
		accepted: unchanged, rejected: "spec: {" + aService + "}",
	},
	ruleCase{
		rule:     "spec rule provider Simulated uses no network: leave serviceRef and caBundle out.",
		accepted: unchanged, rejected: "spec: {caBundle: {configMapKeyRef: {name: ca, key: ca.crt}}}",
	},
	ruleCase{
		rule: needsKey, accepted: servedBy(`baseURL: "http://models.example.org:8000/v1"`),
		rejected: strings.Replace(servedBy(aService), "OpenAI", "Google", 1),
	},
	ruleCase{rule: needsKey, accepted: servedBy(aService), rejected: servedBy("api: Responses")},
	ruleCase{
		rule:     "spec rule provider Simulated uses no network: leave probe out.",
		accepted: servedBy(aService + ", probe: {}"), rejected: "spec: {probe: {}}",
	},
	ruleCase{
		rule:     "spec.probe.interval rule interval must be between 1m and 24h.",
		accepted: servedBy(aService + ", probe: {interval: 1m}"),
		rejected: servedBy(aService + ", probe: {interval: 59s}"),
	},
	ruleCase{
		rule:     "spec.probe.interval rule interval must be between 1m and 24h.",
		accepted: servedBy(aService + ", probe: {interval: 24h}"),
		rejected: servedBy(aService + ", probe: {interval: 24h1s}"),
	},
	ruleCase{
		rule:     "spec.probe.interval pattern",
		accepted: servedBy(aService + ", probe: {interval: 1.5h}"), rejected: servedBy(aService + ", probe: {interval: -5m}"),
		message: "spec.probe.interval in body should match",
	},
)

var serverEndpointCases = append(endpointCases("spec.", serverWithoutURL),
	ruleCase{rule: "spec" + oneOf, accepted: serverWithoutURL(aService), rejected: served(aService)},
	ruleCase{rule: "spec" + oneOf, accepted: unchanged, rejected: served("url: null")},
	ruleCase{
		rule:     overTLS,
		accepted: serverWithoutURL("identity: AgentToken, serviceRef: {name: mcp, port: 443, scheme: HTTPS}"),
		rejected: serverWithoutURL("identity: AgentToken, " + aService),
	},
	ruleCase{
		rule: overTLS, accepted: served(`identity: AgentToken, url: "HTTPS://mcp.example.org"`),
		rejected: served(`identity: AgentToken, url: "http://mcp.example.org"`),
	},
)

var httpEndpointCases = append(endpointCases("spec.http.", requestTo),
	ruleCase{
		rule:     "spec.http" + oneOf,
		accepted: requestTo(aService), rejected: requestTo(aService + `, url: "https://example.org"`),
	},
	ruleCase{rule: "spec.http" + oneOf, accepted: request(""), rejected: requestTo("method: GET")},
)
