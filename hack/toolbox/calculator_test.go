package main

import (
	"math/big"
	"strings"
	"testing"
)

func TestExpressionsAreEvaluated(t *testing.T) {
	tests := map[string]string{
		"1":                 "1",
		" 1 + 2 * 3 ":       "7",
		"(1+2)*3":           "9",
		"10-4-3":            "3",
		"100/10/5":          "2",
		"2*-3":              "-6",
		"--4":               "4",
		"+5":                "5",
		"-(2+3)":            "-5",
		"0.1+0.2":           "0.3",
		".5*4":              "2",
		"1/4":               "0.25",
		"1/3":               "0.333333333333",
		"2/3":               "0.666666666667",
		"-1/1000000000000":  "-0.000000000001",
		"-1/30000000000000": "0",
		"99999999999*99999": "9999899999900001",
		"1\n+\t1":           "2",
	}
	for expression, want := range tests {
		value, err := evaluate(expression)
		if err != nil {
			t.Errorf("%q: %v", expression, err)
			continue
		}
		if got := formatNumber(value); got != want {
			t.Errorf("%q is %s, want %s", expression, got, want)
		}
	}
}

func TestMalformedExpressionsAreRefused(t *testing.T) {
	tests := map[string]string{
		"":                            "ends where a number",
		"1+":                          "ends where a number",
		"(1":                          "not closed",
		"1)":                          "unexpected",
		"1 2":                         "unexpected",
		"1e9":                         "unexpected",
		"1.2.3":                       "does not start with a number",
		".":                           "does not start with a number",
		"two":                         "does not start with a number",
		"1//2":                        "does not start with a number",
		"1/(2-2)":                     "division by zero",
		strings.Repeat("(", 200):      "nested deeper",
		strings.Repeat("-", 200):      "nested deeper",
		strings.Repeat("1", 1001):     "longer than",
		"$(CAPSTAN_SECRET)":           "does not start with a number",
		"\u0661+1" /* other digit */ : "does not start with a number",
	}
	for expression, want := range tests {
		_, err := evaluate(expression)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error is %v, want one with %q", expression, err, want)
		}
	}
}

// FuzzEvaluate checks an arithmetic identity of the evaluator for every expression it accepts.
func FuzzEvaluate(f *testing.F) {
	for _, seed := range []string{"1+2", "(3)/4", "-.5*8", "((", "1/0", "0\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, expression string) {
		value, err := evaluate(expression)
		if err != nil || len(expression) > maxExpression-10 {
			return
		}
		doubled, err := evaluate("(" + expression + ")*2")
		if err != nil {
			if strings.Contains(err.Error(), "nested deeper") {
				return
			}
			t.Fatalf("%q is accepted, but not in parentheses: %v", expression, err)
		}
		if doubled.Cmp(new(big.Rat).Add(value, value)) != 0 {
			t.Fatalf("twice %q is %s, not %s", expression, doubled, value)
		}
	})
}
