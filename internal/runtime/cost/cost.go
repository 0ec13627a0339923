package cost

import (
	"cmp"
	"slices"
	"strings"

	"github.com/shopspring/decimal"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

// MaxCurrencies is how many currencies a list of costs may have. The API has the same limit.
const MaxCurrencies = 4

// Of returns the cost of a model call with these tokens; nil if it is unknown: there is no price, or the provider has
// not reported its token usage.
func Of(price *v1alpha1.ModelPrice, usage model.Usage) *v1alpha1.Cost {
	if price == nil || usage.InputTokens <= 0 && usage.OutputTokens <= 0 {
		return nil
	}
	// A server that miscounts must not cause a negative amount, or count tokens twice.
	input, output := max(usage.InputTokens, 0), max(usage.OutputTokens, 0)
	read := min(max(usage.CacheReadTokens, 0), input)
	written := min(max(usage.CacheWriteTokens, 0), input-read)
	sum := decimal.Zero
	for _, part := range []struct {
		tokens int64
		price  v1alpha1.Price
	}{
		{input - read - written, price.InputPerMillionTokens},
		{read, cmp.Or(price.CachedInputPerMillionTokens, price.InputPerMillionTokens)},
		{written, cmp.Or(price.CacheWritePerMillionTokens, price.InputPerMillionTokens)},
		{output, price.OutputPerMillionTokens},
	} {
		amount, ok := times(part.tokens, part.price)
		if !ok {
			return nil
		}
		sum = sum.Add(amount)
	}
	return &v1alpha1.Cost{Currency: price.Currency, Amount: sum.String()}
}

// Add adds costs to costs, by currency, in the order of the currencies. It changes neither list. If there are more
// currencies than there is room for, it adds nothing, and reports it.
func Add(to []v1alpha1.Cost, more ...v1alpha1.Cost) ([]v1alpha1.Cost, bool) {
	sums := slices.Clone(to)
	for _, c := range more {
		i, found := slices.BinarySearchFunc(
			sums,
			c,
			func(a, b v1alpha1.Cost) int { return strings.Compare(a.Currency, b.Currency) },
		)
		if !found {
			sums = slices.Insert(sums, i, c)
			continue
		}
		sum, known := parse(sums[i].Amount, amountPattern)
		amount, ok := parse(c.Amount, amountPattern)
		if !known || !ok {
			return to, false
		}
		sums[i].Amount = sum.Add(amount).String()
	}
	if len(sums) > MaxCurrencies {
		return to, false
	}
	return sums, true
}
