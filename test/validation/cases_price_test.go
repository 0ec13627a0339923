package validation_test

import (
	"fmt"
	"slices"
)

var priceCases = slices.Concat(
	[]ruleCase{
		{
			rule:     "spec.price required inputPerMillionTokens",
			accepted: `spec: {price: {inputPerMillionTokens: "3", outputPerMillionTokens: "15"}}`,
			rejected: `spec: {price: {outputPerMillionTokens: "15"}}`,
			message:  `spec.price.inputPerMillionTokens: Required value`,
		},
		{
			rule:     "spec.price required outputPerMillionTokens",
			accepted: realModelWith(`price: {inputPerMillionTokens: "3", outputPerMillionTokens: "15"}`),
			rejected: realModelWith(`price: {inputPerMillionTokens: "3"}`),
			message:  `spec.price.outputPerMillionTokens: Required value`,
		},
		{
			rule:     "spec.price.currency pattern",
			accepted: `spec: {price: {currency: CHF, inputPerMillionTokens: "3", outputPerMillionTokens: "15"}}`,
			rejected: `spec: {price: {currency: chf, inputPerMillionTokens: "3", outputPerMillionTokens: "15"}}`,
			message:  `spec.price.currency in body should match '^[A-Z]{3}$'`,
		},
		{
			rule:     "spec.price.currency pattern",
			accepted: `spec: {price: {currency: XAU, inputPerMillionTokens: "3", outputPerMillionTokens: "15"}}`,
			rejected: `spec: {price: {currency: $, inputPerMillionTokens: "3", outputPerMillionTokens: "15"}}`,
			message:  `spec.price.currency in body should match '^[A-Z]{3}$'`,
		},
		{
			rule: "spec rule provider Simulated has no prompt cache: leave cachedInputPerMillionTokens out.",
			accepted: realModelWith(
				`price: {inputPerMillionTokens: "3", outputPerMillionTokens: "15", cachedInputPerMillionTokens: "0.3"}`,
			),
			rejected: `spec: {price: {inputPerMillionTokens: "3", outputPerMillionTokens: "15", ` +
				`cachedInputPerMillionTokens: "0.3"}}`,
		},
		{
			rule: notCountingWrites,
			accepted: realModelWith(
				`price: {inputPerMillionTokens: "3", outputPerMillionTokens: "15", cacheWritePerMillionTokens: "3.75"}`,
			),
			rejected: `spec: {price: {inputPerMillionTokens: "3", outputPerMillionTokens: "15", ` +
				`cacheWritePerMillionTokens: "3.75"}}`,
		},
		{
			rule: notCountingWrites,
			accepted: madeBy(
				"OpenAI",
				`{inputPerMillionTokens: "3", outputPerMillionTokens: "15", cacheWritePerMillionTokens: "3.75"}`,
			),
			rejected: madeBy(
				"Google",
				`{inputPerMillionTokens: "3", outputPerMillionTokens: "15", cacheWritePerMillionTokens: "3.75"}`,
			),
		},
	},
	amountCases("inputPerMillionTokens"),
	amountCases("outputPerMillionTokens"),
	amountCases("cachedInputPerMillionTokens"),
	amountCases("cacheWritePerMillionTokens"),
)

const notCountingWrites = "spec rule this provider does not report the tokens that it writes to its prompt cache: " +
	"leave cacheWritePerMillionTokens out."

// madeBy is a Model of a real provider at a price.
func madeBy(provider, price string) string {
	return fmt.Sprintf(
		"spec: {provider: %s, model: m, simulation: null, secretKeyRef: {name: key, key: api-key}, price: %s}",
		provider,
		price,
	)
}

// amountCases are what a price takes.
func amountCases(field string) []ruleCase {
	accepted := []string{"0", "3", "0.25", "15.00", "999999.999999", "0.000001"}
	rejected := []string{"-1", "+1", "1e3", ".5", "5.", "1,5", "03", "1000000", "0.0000001", "1.2.3", "$3", " 3", ""}
	cases := make([]ruleCase, 0, len(rejected))
	priced := func(amount string) string {
		prices := map[string]string{"inputPerMillionTokens": "1", "outputPerMillionTokens": "1"}
		prices[field] = amount
		text := ""
		for name, value := range prices {
			text += fmt.Sprintf("%s: %q, ", name, value)
		}
		return realModelWith("price: {" + text + "}")
	}
	for i, value := range rejected {
		cases = append(cases, ruleCase{
			rule: "spec.price." + field + " rule a price is a decimal such as '3' or '0.25': at most six digits before and " +
				"six after the decimal point, without a sign.",
			accepted: priced(accepted[i%len(accepted)]),
			rejected: priced(value),
		})
	}
	return cases
}
