package budget

import (
	"regexp"

	"github.com/shopspring/decimal"
)

// amountPattern is what amounts of a status and of a spec look like. It has no exponent, by which a short text could
// stand for a number of a million digits.
var amountPattern = regexp.MustCompile(`^-?[0-9]{1,28}([.][0-9]{1,12})?$`)

// parse reads an amount.
func parse(text string) (decimal.Decimal, bool) {
	if !amountPattern.MatchString(text) {
		return decimal.Zero, false
	}
	value, err := decimal.NewFromString(text)
	return value, err == nil
}
