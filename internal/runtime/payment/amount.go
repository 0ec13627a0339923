package payment

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Amount is an amount of money in millionths of a US dollar.
type Amount int64

// decimals is the number of places of an amount in text.
const decimals = 6

// amountPattern is that of the schema of the API: no sign, no exponent, and digits that fit 64 bits.
var amountPattern = regexp.MustCompile(`^[0-9]{1,9}([.][0-9]{1,6})?$`)

// ParseAmount reads an amount in US dollars, such as 0.05, exactly.
func ParseAmount(text string) (Amount, error) {
	if !amountPattern.MatchString(text) {
		return 0, fmt.Errorf("an amount has up to 9 digits and up to %d places, such as 0.05", decimals)
	}
	whole, places, _ := strings.Cut(text, ".")
	n, err := strconv.ParseInt(whole+places+strings.Repeat("0", decimals-len(places)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading an amount: %w", err)
	}
	return Amount(n), nil
}

// String is the amount in US dollars, without zeros at the end of its places. ParseAmount reads it.
func (a Amount) String() string {
	text := fmt.Sprintf("%0*d", decimals+1, int64(a))
	point := len(text) - decimals
	return strings.TrimSuffix(strings.TrimRight(text[:point]+"."+text[point:], "0"), ".")
}
