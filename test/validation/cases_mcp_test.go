package validation_test

// served is an MCPServer with further fields in its spec.
func served(fields string) string { return `spec: {` + fields + `}` }

// at is an MCPServer at a URL.
func at(url string) string { return served(`url: "` + url + `"`) }

// ruled is an MCPServer with a rule for a tool.
func ruled(fields string) string { return served(`tools: [{` + fields + `}]`) }

const (
	serverName     = "rule the name of an MCPServer is a part of the names of its tools: at most 32 characters, no dots."
	serverNotHTTPS = "spec.url rule url must be an absolute https or http URL."
	serverUser     = "spec.url rule url must not have a user or a password in it: use headers."
	serverFragment = "spec.url rule url must not have a fragment."
	serverTimeout  = "spec.timeout rule timeout must be between 1s and 15m."
	serverInterval = "spec.refreshInterval rule refreshInterval must be between 1m and 24h."
	serverSame     = "spec.headers rule header names must be unique, regardless of case."
	serverReserved = "spec.headers rule Accept, Content-Type, Last-Event-ID and headers that begin with Mcp- are set by " +
		"the runtime. Leave them out."
	serverIdentity = "spec rule the identity AgentToken sets the header Authorization. Leave it out of headers."
	serverOwn      = "spec.headers[].name rule this header is set by the runtime, or says how the request is sent. " +
		"Leave it out."
	serverEither = "spec.headers[] rule exactly one of value, secretKeyRef, connection and sessionSecret must be set, " +
		"but that connection may have a secretKeyRef beside it."
	serverApproval = "spec.tools[] rule approvalTimeout is for tools with the policy RequiresApproval."
	serverApprove  = "spec.tools[].approvalTimeout rule approvalTimeout must be between 1s and 8760h."
)

var serverCases = []ruleCase{
	{rule: "required spec", accepted: unchanged, rejected: `spec: null`, message: "spec: Required value"},
	{
		rule:     serverName,
		accepted: `metadata: {name: a2345678901234567890123456789012}`,
		rejected: `metadata: {name: a23456789012345678901234567890123}`,
	},
	{rule: serverName, accepted: `metadata: {name: a-b}`, rejected: `metadata: {name: a.b}`},
	{rule: serverNotHTTPS, accepted: at("https://example.org:8443/mcp"), rejected: at("ftp://example.org/mcp")},
	{rule: serverNotHTTPS, accepted: at("https://192.0.2.1"), rejected: at("https:///mcp")},
	{rule: serverUser, accepted: at("https://example.org/@ann"), rejected: at("https://ann@example.org")},
	{rule: serverFragment, accepted: at("https://example.org/%23"), rejected: at("https://example.org/#top")},
	{
		rule:     serverIdentity,
		accepted: served(`identity: AgentToken, headers: [{name: X-Authorization, value: a}]`),
		rejected: served(`identity: AgentToken, headers: [{name: authorization, value: a}]`),
	},
	{
		rule:     serverIdentity,
		accepted: served(`identity: None, headers: [{name: Authorization, value: a}]`),
		rejected: served(`identity: AgentToken, headers: [{name: X-A, value: a}, {name: AUTHORIZATION, value: a}]`),
	},
	{
		rule: "spec.identity enum", accepted: served(`identity: AgentToken`), rejected: served(`identity: Token`),
		message: "spec.identity: Unsupported value",
	},
	{
		rule:     "spec.headers[].sessionSecret required name",
		accepted: served(`headers: [{name: A, sessionSecret: {name: crm-key}}]`),
		rejected: served(`headers: [{name: A, sessionSecret: {}}]`),
		message:  "spec.headers[0].sessionSecret.name: Required value",
	},
	{
		rule:     "spec.headers[].sessionSecret.name pattern",
		accepted: served(`headers: [{name: A, sessionSecret: {name: a.b_c-1}}]`),
		rejected: served(`headers: [{name: A, sessionSecret: {name: Key}}]`),
		message:  "spec.headers[0].sessionSecret.name in body should match",
	},
	{
		rule:     "spec.headers[].sessionSecret.scheme pattern",
		accepted: served(`headers: [{name: A, sessionSecret: {name: key, scheme: Bearer}}]`),
		rejected: served(`headers: [{name: A, sessionSecret: {name: key, scheme: "Bearer x"}}]`),
		message:  "spec.headers[0].sessionSecret.scheme in body should match",
	},
	{
		rule:     "spec.headers[].connection required provider",
		accepted: served(`headers: [{name: A, connection: {provider: github}}]`),
		rejected: served(`headers: [{name: A, connection: {}}]`),
		message:  "spec.headers[0].connection.provider: Required value",
	},
	{
		rule:     "spec.headers[].connection.provider pattern",
		accepted: served(`headers: [{name: A, connection: {provider: a.b_c-1}}]`),
		rejected: served(`headers: [{name: A, connection: {provider: Github}}]`),
		message:  "spec.headers[0].connection.provider in body should match",
	},
	{
		rule:     "spec.headers[].connection.scheme pattern",
		accepted: served(`headers: [{name: A, connection: {provider: github, scheme: Bearer}}]`),
		rejected: served(`headers: [{name: A, connection: {provider: github, scheme: "Bearer x"}}]`),
		message:  "spec.headers[0].connection.scheme in body should match",
	},
	{
		rule:     "spec.headers[] required name",
		accepted: served(`headers: [{name: X-A, value: a}]`),
		rejected: served(`headers: [{value: a}]`),
		message:  "spec.headers[0].name: Required value",
	},
	{
		rule:     "spec.headers[].name pattern",
		accepted: served(`headers: [{name: X_my.Header-1, value: a}]`),
		rejected: served(`headers: [{name: "a:b", value: a}]`),
		message:  "spec.headers[0].name in body should match",
	},
	{
		rule:     serverOwn,
		accepted: served(`headers: [{name: A, value: a}]`),
		rejected: served(`headers: [{name: Host, value: a}]`),
	},
	{
		rule:     "spec.headers[].value pattern",
		accepted: served(`headers: [{name: A, value: "a, b"}]`),
		rejected: served(`headers: [{name: A, value: "a\r\nB: c"}]`),
		message:  "spec.headers[0].value in body should match",
	},
	{
		rule:     serverEither,
		accepted: served(`headers: [{name: A, secretKeyRef: {name: s, key: k}}]`),
		rejected: served(`headers: [{name: A, value: "", secretKeyRef: {name: s, key: k}}]`),
	},
	{rule: serverEither, accepted: served(`headers: [{name: A, value: ""}]`), rejected: served(`headers: [{name: A}]`)},
	{
		rule:     "spec.headers[].secretKeyRef required name",
		accepted: served(`headers: [{name: A, secretKeyRef: {name: s, key: k}}]`),
		rejected: served(`headers: [{name: A, secretKeyRef: {key: k}}]`),
		message:  "spec.headers[0].secretKeyRef.name: Required value",
	},
	{
		rule:     "spec.headers[].secretKeyRef required key",
		accepted: served(`headers: [{name: A, secretKeyRef: {name: s, key: k}}]`),
		rejected: served(`headers: [{name: A, secretKeyRef: {name: s}}]`),
		message:  "spec.headers[0].secretKeyRef.key: Required value",
	},
	{
		rule:     "spec.headers[].secretKeyRef.key pattern",
		accepted: served(`headers: [{name: A, secretKeyRef: {name: s, key: .api_token-1}}]`),
		rejected: served(`headers: [{name: A, secretKeyRef: {name: s, key: a/b}}]`),
		message:  "spec.headers[0].secretKeyRef.key in body should match",
	},
	{
		rule:     serverSame,
		accepted: served(`headers: [{name: A, value: b}, {name: B, value: b}]`),
		rejected: served(`headers: [{name: Ab, value: b}, {name: aB, value: b}]`),
	},
	{
		rule:     serverReserved,
		accepted: served(`headers: [{name: X-Mcp-A, value: b}]`),
		rejected: served(`headers: [{name: Mcp-Session-Id, value: b}]`),
	},
	{
		rule:     serverReserved,
		accepted: served(`headers: [{name: Accept-Language, value: b}]`),
		rejected: served(`headers: [{name: accept, value: b}]`),
	},
	{
		rule:     "spec.timeout pattern",
		accepted: served(`timeout: 1m30s`),
		rejected: served(`timeout: "30"`),
		message:  "spec.timeout in body should match",
	},
	{rule: serverTimeout, accepted: served(`timeout: 1s`), rejected: served(`timeout: 999ms`)},
	{rule: serverTimeout, accepted: served(`timeout: 15m`), rejected: served(`timeout: 15m1s`)},
	{
		rule:     "spec.refreshInterval pattern",
		accepted: served(`refreshInterval: 1h30m`),
		rejected: served(`refreshInterval: "30"`),
		message:  "spec.refreshInterval in body should match",
	},
	{rule: serverInterval, accepted: served(`refreshInterval: 1m`), rejected: served(`refreshInterval: 59s`)},
	{rule: serverInterval, accepted: served(`refreshInterval: 24h`), rejected: served(`refreshInterval: 24h1s`)},
	{
		rule:     "spec.toolFilter rule at least one of include and exclude must be set.",
		accepted: served(`toolFilter: {exclude: [a]}`),
		rejected: served(`toolFilter: {}`),
	},
	{
		rule:     "spec.toolFilter.include[] pattern",
		accepted: served(`toolFilter: {include: [a_b-c.d/e*, "*"]}`),
		rejected: served(`toolFilter: {include: ["*a"]}`),
		message:  "spec.toolFilter.include[0] in body should match",
	},
	{
		rule:     "spec.tools[].secretArguments[] pattern",
		accepted: ruled(`name: a, secretArguments: [/a, /a~1b~0/0]`),
		rejected: ruled(`name: a, secretArguments: [/a~2]`),
		message:  "spec.tools[0].secretArguments[0] in body should match",
	},
	{
		rule:     "spec.toolFilter.exclude[] pattern",
		accepted: served(`toolFilter: {exclude: [a_b-c.d/e*]}`),
		rejected: served(`toolFilter: {exclude: ["a b"]}`),
		message:  "spec.toolFilter.exclude[0] in body should match",
	},
	{
		rule:     "spec.tools[] required name",
		accepted: ruled(`name: a`),
		rejected: ruled(`sideEffect: Pure`),
		message:  "spec.tools[0].name: Required value",
	},
	{
		rule:     "spec.tools[].sideEffect enum",
		accepted: ruled(`name: a, sideEffect: Pure`),
		rejected: ruled(`name: a, sideEffect: None`),
		message:  `spec.tools[0].sideEffect: Unsupported value: "None"`,
	},
	{
		rule:     "spec.tools[].policy enum",
		accepted: ruled(`name: a, policy: RequiresApproval`),
		rejected: ruled(`name: a, policy: Never`),
		message:  `spec.tools[0].policy: Unsupported value: "Never"`,
	},
	{
		rule:     serverApproval,
		accepted: ruled(`name: a, policy: RequiresApproval, approvalTimeout: 1h`),
		rejected: ruled(`name: a, approvalTimeout: 1h`),
	},
	{
		rule:     "spec.tools[].approvalTimeout pattern",
		accepted: ruled(`name: a, policy: RequiresApproval, approvalTimeout: 1h30m`),
		rejected: ruled(`name: a, policy: RequiresApproval, approvalTimeout: "30"`),
		message:  "spec.tools[0].approvalTimeout in body should match",
	},
	{
		rule:     serverApprove,
		accepted: ruled(`name: a, policy: RequiresApproval, approvalTimeout: 8760h`),
		rejected: ruled(`name: a, policy: RequiresApproval, approvalTimeout: 8760h1s`),
	},
}
