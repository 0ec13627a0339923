package validation_test

// request is a patch that makes the smallest Tool one that is an HTTP request, with more fields of it.
func request(fields string) string {
	if fields != "" {
		fields = ", " + fields
	}
	return `spec: {client: null, http: {url: "https://example.org"` + fields + `}}`
}

// to is a patch that makes the smallest Tool a request to a URL.
func to(url string) string {
	return `spec: {client: null, http: {url: "` + url + `"}}`
}

const (
	notHTTPS     = "spec.http.url rule url must be an absolute https or http URL."
	withUser     = "spec.http.url rule url must not have a user or a password in it: use headers."
	withFragment = "spec.http.url rule url must not have a fragment."
	ownHeader    = "spec.http.headers[].name rule this header is set by the runtime, or says how the request is sent. " +
		"Leave it out."
	eitherValue = "spec.http.headers[] rule exactly one of value, secretKeyRef, connection and sessionSecret must be " +
		"set, but that connection may have a secretKeyRef beside it."
	sameHeader  = "spec.http.headers rule header names must be unique, regardless of case."
	noBody      = "spec.http rule a GET has no body: use arguments Query, or another method."
	httpTimeout = "spec.http.timeout rule timeout must be between 1s and 15m."
)

var httpCases = []ruleCase{
	{rule: notHTTPS, accepted: to("https://example.org:8443/v1/a%20b?c=d@e"), rejected: to("ftp://example.org")},
	{rule: notHTTPS, accepted: to("HTTPS://example.org"), rejected: to("https:///v1")},
	{rule: notHTTPS, accepted: to("https://[2001:db8::1]/"), rejected: to("example.org/v1")},
	{rule: notHTTPS, accepted: to("https://192.0.2.1"), rejected: to("//example.org")},
	{rule: notHTTPS, accepted: to("https://example.org/{id}"), rejected: to("https://:443/")},
	{rule: withUser, accepted: to("https://example.org/@ann"), rejected: to("https://ann@example.org")},
	{
		rule:     withUser,
		accepted: to("https://example.org?to=ann@example.org"),
		rejected: to("https://ann:pass@example.org/v1"),
	},
	{rule: withFragment, accepted: to("https://example.org/%23"), rejected: to("https://example.org/#top")},
	{
		rule:     "spec.http.method enum",
		accepted: request(`method: PATCH`),
		rejected: request(`method: TRACE`),
		message:  `spec.http.method: Unsupported value: "TRACE": supported values: "GET", "POST", "PUT", "PATCH", "DELETE"`,
	},
	{
		rule:     "spec.http.arguments enum",
		accepted: request(`arguments: Query`),
		rejected: request(`arguments: Path`),
		message:  `spec.http.arguments: Unsupported value: "Path": supported values: "Body", "Query"`,
	},
	{
		rule:     "spec.http.secretArguments[] pattern",
		accepted: request(`secretArguments: [/a, /a~1b~0/0]`),
		rejected: request(`secretArguments: [a.b]`),
		message:  `spec.http.secretArguments[0] in body should match`,
	},
	{rule: noBody, accepted: request(`method: GET, arguments: Query`), rejected: request(`method: GET, arguments: Body`)},
	{
		rule:     noBody,
		accepted: request(`method: DELETE, arguments: Body`),
		rejected: request(`arguments: Body, method: GET`),
	},
	{
		rule:     "spec.http.headers[] required name",
		accepted: request(`headers: [{name: Accept, value: text/csv}]`),
		rejected: request(`headers: [{value: text/csv}]`),
		message:  `spec.http.headers[0].name: Required value`,
	},
	{
		rule:     "spec.http.headers[].name pattern",
		accepted: request(`headers: [{name: X_my.Header-1, value: a}]`),
		rejected: request(`headers: [{name: "a:b", value: a}]`),
		message:  `spec.http.headers[0].name in body should match`,
	},
	{
		rule:     ownHeader,
		accepted: request(`headers: [{name: X-Host, value: a}]`),
		rejected: request(`headers: [{name: Host, value: a}]`),
	},
	{
		rule:     ownHeader,
		accepted: request(`headers: [{name: User-Agent, value: a}]`),
		rejected: request(`headers: [{name: IDEMPOTENCY-key, value: a}]`),
	},
	{
		rule:     ownHeader,
		accepted: request(`headers: [{name: Content-Type, value: a/b}]`),
		rejected: request(`headers: [{name: transfer-encoding, value: chunked}]`),
	},
	{
		rule:     "spec.http.headers[].value pattern",
		accepted: request(`headers: [{name: A, value: "a, b; c=\"d\""}]`),
		rejected: request(`headers: [{name: A, value: "a\r\nB: c"}]`),
		message:  `spec.http.headers[0].value in body should match`,
	},
	{
		rule:     eitherValue,
		accepted: request(`headers: [{name: A, secretKeyRef: {name: s, key: k}}]`),
		rejected: request(`headers: [{name: A, value: "", secretKeyRef: {name: s, key: k}}]`),
	},
	{
		rule:     eitherValue,
		accepted: request(`headers: [{name: A, connection: {provider: github}, secretKeyRef: {name: s, key: k}}]`),
		rejected: request(`headers: [{name: A, connection: {provider: github}, value: a}]`),
	},
	{
		rule:     eitherValue,
		accepted: request(`headers: [{name: A, sessionSecret: {name: key, scheme: Bearer}}]`),
		rejected: request(`headers: [{name: A, sessionSecret: {name: key}, secretKeyRef: {name: s, key: k}}]`),
	},
	{
		rule:     "spec.http.headers[].sessionSecret required name",
		accepted: request(`headers: [{name: A, sessionSecret: {name: crm-key}}]`),
		rejected: request(`headers: [{name: A, sessionSecret: {}}]`),
		message:  `spec.http.headers[0].sessionSecret.name: Required value`,
	},
	{
		rule:     "spec.http.headers[].sessionSecret.name pattern",
		accepted: request(`headers: [{name: A, sessionSecret: {name: a.b_c-1}}]`),
		rejected: request(`headers: [{name: A, sessionSecret: {name: Key}}]`),
		message:  `spec.http.headers[0].sessionSecret.name in body should match`,
	},
	{
		rule:     "spec.http.headers[].sessionSecret.scheme pattern",
		accepted: request(`headers: [{name: A, sessionSecret: {name: key, scheme: Bearer}}]`),
		rejected: request(`headers: [{name: A, sessionSecret: {name: key, scheme: "Bearer x"}}]`),
		message:  `spec.http.headers[0].sessionSecret.scheme in body should match`,
	},
	{
		rule:     "spec.http.headers[].connection required provider",
		accepted: request(`headers: [{name: A, connection: {provider: github}}]`),
		rejected: request(`headers: [{name: A, connection: {}}]`),
		message:  `spec.http.headers[0].connection.provider: Required value`,
	},
	{
		rule:     "spec.http.headers[].connection.provider pattern",
		accepted: request(`headers: [{name: A, connection: {provider: a.b_c-1}}]`),
		rejected: request(`headers: [{name: A, connection: {provider: Github}}]`),
		message:  `spec.http.headers[0].connection.provider in body should match`,
	},
	{
		rule:     "spec.http.headers[].connection.scheme pattern",
		accepted: request(`headers: [{name: A, connection: {provider: github, scheme: Bearer}}]`),
		rejected: request(`headers: [{name: A, connection: {provider: github, scheme: "Bearer x"}}]`),
		message:  `spec.http.headers[0].connection.scheme in body should match`,
	},
	{rule: eitherValue, accepted: request(`headers: [{name: A, value: ""}]`), rejected: request(`headers: [{name: A}]`)},
	{
		rule:     "spec.http.headers[].secretKeyRef required name",
		accepted: request(`headers: [{name: A, secretKeyRef: {name: s, key: k}}]`),
		rejected: request(`headers: [{name: A, secretKeyRef: {key: k}}]`),
		message:  `spec.http.headers[0].secretKeyRef.name: Required value`,
	},
	{
		rule:     "spec.http.headers[].secretKeyRef required key",
		accepted: request(`headers: [{name: A, secretKeyRef: {name: s, key: k}}]`),
		rejected: request(`headers: [{name: A, secretKeyRef: {name: s}}]`),
		message:  `spec.http.headers[0].secretKeyRef.key: Required value`,
	},
	{
		rule:     "spec.http.headers[].secretKeyRef.key pattern",
		accepted: request(`headers: [{name: A, secretKeyRef: {name: s, key: .api_token-1}}]`),
		rejected: request(`headers: [{name: A, secretKeyRef: {name: s, key: a/b}}]`),
		message:  `spec.http.headers[0].secretKeyRef.key in body should match`,
	},
	{
		rule:     sameHeader,
		accepted: request(`headers: [{name: A, value: b}, {name: B, value: b}]`),
		rejected: request(`headers: [{name: Ab, value: b}, {name: aB, value: b}]`),
	},
	{
		rule:     "spec.http.timeout pattern",
		accepted: request(`timeout: 1m30s`),
		rejected: request(`timeout: "30"`),
		message:  `spec.http.timeout in body should match`,
	},
	{rule: httpTimeout, accepted: request(`timeout: 1s`), rejected: request(`timeout: 999ms`)},
	{rule: httpTimeout, accepted: request(`timeout: 15m`), rejected: request(`timeout: 15m1s`)},
}
