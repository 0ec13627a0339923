package validation_test

// payment is a patch that makes the smallest Tool one that pays, with changed fields of the payment.
func payment(fields string) string {
	if fields != "" {
		fields = ", " + fields
	}
	return request(`payment: {rail: X402Base, walletRef: {name: wallet, key: key}, maxAmount: "0.05"` + fields + `}`)
}

const (
	tooLittle   = " rule the amount must be more than 0."
	withSecrets = "spec.http rule a request with secrets of the Session cannot be paid for: leave out payment, or " +
		"secretArguments and sessionSecret."
	payee = `"0x209693Bc6afc0C5328bA36FaF03C514EF312287C"`
)

var paymentCases = []ruleCase{
	{
		rule:     withSecrets,
		accepted: request(`secretArguments: [/a]`),
		rejected: request(`secretArguments: [/a], payment: {rail: X402Base, walletRef: {name: w, key: k}, maxAmount: "1"}`),
	},
	{
		rule:     withSecrets,
		accepted: request(`headers: [{name: A, sessionSecret: {name: key}}]`),
		rejected: request(`headers: [{name: A, sessionSecret: {name: key}}], ` +
			`payment: {rail: X402Base, walletRef: {name: w, key: k}, maxAmount: "1"}`),
	},
	{
		rule:     "spec.http rule payment is for the methods GET and POST.",
		accepted: request(`method: GET, payment: {rail: X402Base, walletRef: {name: w, key: k}, maxAmount: "1"}`),
		rejected: request(`method: PUT, payment: {rail: X402Base, walletRef: {name: w, key: k}, maxAmount: "1"}`),
	},
	{
		rule:     "spec.http.payment required rail",
		accepted: payment(""),
		rejected: request(`payment: {walletRef: {name: wallet, key: key}, maxAmount: "0.05"}`),
		message:  `spec.http.payment.rail: Required value`,
	},
	{
		rule:     "spec.http.payment.rail enum",
		accepted: payment(""),
		rejected: request(`payment: {rail: Tempo, walletRef: {name: wallet, key: key}, maxAmount: "0.05"}`),
		message:  `spec.http.payment.rail: Unsupported value: "Tempo": supported values: "X402Base"`,
	},
	{
		rule:     "spec.http.payment.network enum",
		accepted: payment(`network: BaseSepolia`),
		rejected: payment(`network: Ethereum`),
		message:  `spec.http.payment.network: Unsupported value: "Ethereum": supported values: "Base", "BaseSepolia"`,
	},
	{
		rule:     "spec.http.payment required walletRef",
		accepted: payment(""),
		rejected: request(`payment: {rail: X402Base, maxAmount: "0.05"}`),
		message:  `spec.http.payment.walletRef: Required value`,
	},
	{
		rule:     "spec.http.payment.walletRef required name",
		accepted: payment(""),
		rejected: request(`payment: {rail: X402Base, walletRef: {key: key}, maxAmount: "0.05"}`),
		message:  `spec.http.payment.walletRef.name: Required value`,
	},
	{
		rule:     "spec.http.payment.walletRef required key",
		accepted: payment(""),
		rejected: request(`payment: {rail: X402Base, walletRef: {name: wallet}, maxAmount: "0.05"}`),
		message:  `spec.http.payment.walletRef.key: Required value`,
	},
	{
		rule:     "spec.http.payment.walletRef.key pattern",
		accepted: payment(""),
		rejected: request(`payment: {rail: X402Base, walletRef: {name: wallet, key: "a/b"}, maxAmount: "0.05"}`),
		message:  `spec.http.payment.walletRef.key in body should match`,
	},
	{
		rule:     "spec.http.payment required maxAmount",
		accepted: payment(""),
		rejected: request(`payment: {rail: X402Base, walletRef: {name: wallet, key: key}}`),
		message:  `spec.http.payment.maxAmount: Required value`,
	},
	{
		rule:     "spec.http.payment.maxAmount pattern",
		accepted: request(`payment: {rail: X402Base, walletRef: {name: w, key: k}, maxAmount: "0.000001"}`),
		rejected: request(`payment: {rail: X402Base, walletRef: {name: w, key: k}, maxAmount: "1e3"}`),
		message:  `spec.http.payment.maxAmount in body should match`,
	},
	{
		rule:     "spec.http.payment.maxAmount" + tooLittle,
		accepted: request(`payment: {rail: X402Base, walletRef: {name: w, key: k}, maxAmount: "10"}`),
		rejected: request(`payment: {rail: X402Base, walletRef: {name: w, key: k}, maxAmount: "0.00"}`),
	},
	{
		rule:     "spec.http.payment.maxAmountPerTurn pattern",
		accepted: payment(`maxAmountPerTurn: "1.5"`),
		rejected: payment(`maxAmountPerTurn: "-1"`),
		message:  `spec.http.payment.maxAmountPerTurn in body should match`,
	},
	{
		rule:     "spec.http.payment.maxAmountPerTurn" + tooLittle,
		accepted: payment(`maxAmountPerTurn: "0.1"`),
		rejected: payment(`maxAmountPerTurn: "0"`),
	},
	{
		rule:     "spec.http.payment.maxAmountPerSession pattern",
		accepted: payment(`maxAmountPerSession: "100"`),
		rejected: payment(`maxAmountPerSession: "1.0000001"`),
		message:  `spec.http.payment.maxAmountPerSession in body should match`,
	},
	{
		rule:     "spec.http.payment.maxAmountPerSession" + tooLittle,
		accepted: payment(`maxAmountPerSession: "0.1"`),
		rejected: payment(`maxAmountPerSession: "0.0"`),
	},
	{
		rule:     "spec.http.payment.payees[] pattern",
		accepted: payment(`payees: [` + payee + `]`),
		rejected: payment(`payees: ["0x209693Bc6afc0C5328bA36FaF03C514EF312287Z"]`),
		message:  `spec.http.payment.payees[0] in body should match`,
	},
}
