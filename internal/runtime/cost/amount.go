package cost

import (
	"regexp"

	"github.com/shopspring/decimal"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// What the schema of the API accepts, with any number of digits before the point: no sign, and no exponent, by which a
// short text could stand for a number of a million digits.
var (
	pricePattern  = regexp.MustCompile(`^[0-9]+([.][0-9]{1,6})?$`)
	amountPattern = regexp.MustCompile(`^[0-9]+([.][0-9]{1,12})?$`)
)

// perMillion moves the decimal point from a million tokens to one.
const perMillion = -6

// parse reads a decimal that matches a pattern.
func parse(text string, pattern *regexp.Regexp) (decimal.Decimal, bool) {
	if !pattern.MatchString(text) {
		return decimal.Zero, false
	}
	value, err := decimal.NewFromString(text)
	return value, err == nil
}

// times returns the cost of a number of tokens at a price.
func times(tokens int64, price v1alpha1.Price) (decimal.Decimal, bool) {
	each, ok := parse(string(price), pricePattern)
	return each.Mul(decimal.NewFromInt(tokens)).Shift(perMillion), ok
}
