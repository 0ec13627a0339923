package cost

import (
	"math/big"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

const (
	// pricePlaces are the places that a price may have.
	pricePlaces = 6
	// amountPlaces are the places of an amount: those of a price, and those of a token's share of a million.
	amountPlaces = pricePlaces + 6
)

// parse reads a decimal as a whole number of its last place. It accepts the same values as the schema of the API, and
// no sign, exponent or rounding.
func parse(text string, places int) (*big.Int, bool) {
	whole, fraction, point := strings.Cut(text, ".")
	if whole == "" || point && fraction == "" || len(fraction) > places || !digits(whole) || !digits(fraction) {
		return nil, false
	}
	return new(big.Int).SetString(whole+fraction+strings.Repeat("0", places-len(fraction)), 10)
}

// digits reports whether a text consists of digits.
func digits(text string) bool {
	return strings.Trim(text, "0123456789") == ""
}

// format writes a whole number of the last place of an amount as a decimal, without insignificant zeros.
func format(amount *big.Int) string {
	text := amount.String()
	if missing := amountPlaces + 1 - len(text); missing > 0 {
		text = strings.Repeat("0", missing) + text
	}
	whole, fraction := text[:len(text)-amountPlaces], strings.TrimRight(text[len(text)-amountPlaces:], "0")
	if fraction == "" {
		return whole
	}
	return whole + "." + fraction
}

// times returns the cost of a number of tokens at a price.
func times(tokens int64, price v1alpha1.Price) (*big.Int, bool) {
	each, ok := parse(string(price), pricePlaces)
	if !ok {
		return nil, false
	}
	return each.Mul(each, big.NewInt(tokens)), true
}
