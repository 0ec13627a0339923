package validation_test

// expression is a Budget with a condition on labels.
func expression(fields string) string {
	return `spec: {sessionSelector: {matchExpressions: [{` + fields + `}]}}`
}

// tokens is the unit that is not that of the smallest Budget.
const tokens = `unit: Tokens, currency: null`

var budgetCases = []ruleCase{
	{
		rule:     "rule the name of a Budget has at most 63 characters.",
		accepted: capabilityName(63), rejected: capabilityName(64),
	},
	{
		rule: "required spec", accepted: unchanged, rejected: `spec: null`, message: `spec: Required value`,
	},
	{
		rule:     "spec required sessionSelector",
		accepted: `spec: {sessionSelector: {}}`, rejected: `spec: {sessionSelector: null}`,
		message: `spec.sessionSelector: Required value`,
	},
	{
		rule:     "spec required unit",
		accepted: unchanged, rejected: `spec: {unit: null}`, message: `spec.unit: Required value`,
	},
	{
		rule:     "spec required limit",
		accepted: unchanged, rejected: `spec: {limit: null}`, message: `spec.limit: Required value`,
	},
	{
		rule:     "spec.unit enum",
		accepted: `spec: {` + tokens + `}`, rejected: `spec: {unit: Calls}`,
		message: `spec.unit: Unsupported value: "Calls": supported values: "Currency", "Tokens"`,
	},
	{
		rule:     "spec.window enum",
		accepted: `spec: {window: Week}`, rejected: `spec: {window: Year}`,
		message: `spec.window: Unsupported value: "Year": supported values: "Total", "Day", "Week", "Month"`,
	},
	{
		rule:     "spec.onExhausted enum",
		accepted: `spec: {onExhausted: End}`, rejected: `spec: {onExhausted: Fail}`,
		message: `spec.onExhausted: Unsupported value: "Fail": supported values: "Pause", "End"`,
	},
	{
		rule:     "spec.currency pattern",
		accepted: `spec: {currency: EUR}`, rejected: `spec: {currency: eur}`,
		message: `spec.currency in body should match`,
	},
	{
		rule: "spec.limit rule a limit is a decimal such as '100' or '2.50': at most twelve digits before and six after " +
			"the decimal point, without a sign.",
		accepted: `spec: {limit: "999999999999.999999"}`, rejected: `spec: {limit: "-1"}`,
	},
	{
		rule: "spec.softLimit rule a limit is a decimal such as '100' or '2.50': at most twelve digits before and six " +
			"after the decimal point, without a sign.",
		accepted: `spec: {softLimit: "0.5"}`,
		rejected: `spec: {softLimit: "1e0"}`,
	},
	{
		rule:     "spec.timeZone rule timeZone must be the name of a time zone in the IANA database.",
		accepted: `spec: {window: Day, timeZone: Europe/Berlin}`, rejected: `spec: {window: Day, timeZone: Local}`,
	},
	{
		rule:     "spec.timeZone rule timeZone must be the name of a time zone in the IANA database.",
		accepted: `spec: {window: Day, timeZone: Etc/GMT-1}`, rejected: `spec: {window: Day, timeZone: "+01:00"}`,
	},
	{
		rule:     "spec rule currency must be set with the unit Currency, and only with it.",
		accepted: `spec: {` + tokens + `}`, rejected: `spec: {unit: Tokens}`,
	},
	{
		rule:     "spec rule limits in tokens are whole numbers.",
		accepted: `spec: {` + tokens + `, limit: "5", softLimit: "4"}`,
		rejected: `spec: {` + tokens + `, limit: "5", softLimit: "4.5"}`,
	},
	{
		rule:     "spec rule softLimit must not exceed limit.",
		accepted: `spec: {limit: "10", softLimit: "10.0"}`, rejected: `spec: {limit: "10", softLimit: "10.1"}`,
	},
	{
		rule: "spec rule unit and currency cannot be changed: the amounts in status are in them. Create a Budget with " +
			"another name.",
		stored: unchanged, accepted: `spec: {limit: "7"}`, rejected: `spec: {currency: EUR}`,
	},
	{
		rule:     "spec rule timeZone is for the windows Day, Week and Month.",
		accepted: `spec: {window: Month, timeZone: UTC}`, rejected: `spec: {timeZone: UTC}`,
	},
	{
		rule:     "spec.sessionSelector.matchExpressions[] required key",
		accepted: expression(`key: team, operator: Exists`), rejected: expression(`operator: Exists`),
		message: `spec.sessionSelector.matchExpressions[0].key: Required value`,
	},
	{
		rule:     "spec.sessionSelector.matchExpressions[] required operator",
		accepted: expression(`key: team, operator: Exists`), rejected: expression(`key: team`),
		message: `spec.sessionSelector.matchExpressions[0].operator: Required value`,
	},
	{
		rule: "spec.sessionSelector.matchExpressions[] rule values must be set with the operators In and NotIn, and only " +
			"with them.",
		accepted: expression(`key: team, operator: In, values: [a]`),
		rejected: expression(`key: team, operator: In`),
	},
	{
		rule:     "spec.sessionSelector.matchExpressions[].operator enum",
		accepted: expression(`key: team, operator: DoesNotExist`), rejected: expression(`key: team, operator: Is`),
		message: `spec.sessionSelector.matchExpressions[0].operator: Unsupported value: "Is"`,
	},
	{
		rule:     "spec.sessionSelector.matchExpressions[].key pattern",
		accepted: expression(`key: example.org/team, operator: Exists`), rejected: expression(`key: "a b", operator: Exists`),
		message: `spec.sessionSelector.matchExpressions[0].key in body should match`,
	},
	{
		rule:     "spec.sessionSelector.matchLabels[*] pattern",
		accepted: `spec: {sessionSelector: {matchLabels: {team: a.b-c}}}`,
		rejected: `spec: {sessionSelector: {matchLabels: {team: a b}}}`,
		message:  `spec.sessionSelector.matchLabels.team in body should match`,
	},
	{
		rule:     "spec.sessionSelector.matchExpressions[].values[] pattern",
		accepted: expression(`key: team, operator: In, values: [a.b-c]`),
		rejected: expression(`key: team, operator: In, values: ["a b"]`),
		message:  `spec.sessionSelector.matchExpressions[0].values[0] in body should match`,
	},
}

var budgetSpecimens = []specimen{
	{kind: "Budget", name: "large", spec: `
  sessionSelector: {}
  unit: Currency
  currency: EUR
  limit: "999999999999.999999"
  softLimit: "80.5"
  window: Week
  onExhausted: Pause
`},
	{kind: "Budget", name: "monthly", spec: `
  sessionSelector:
    matchLabels: {team: support}
    matchExpressions:
    - {key: tier, operator: In, values: [gold, silver]}
  unit: Currency
  currency: EUR
  limit: "100"
  softLimit: "80.5"
  window: Month
  timeZone: Europe/Berlin
  onExhausted: End
`},
}
