package cost

import (
	"math"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

// dollars is a price for what is read and what is written.
func dollars(input, output v1alpha1.Price) *v1alpha1.ModelPrice {
	return &v1alpha1.ModelPrice{Currency: "USD", InputPerMillionTokens: input, OutputPerMillionTokens: output}
}

// cached is a price with one for tokens from the cache and one for tokens written to it.
func cached(input, read, written, output v1alpha1.Price) *v1alpha1.ModelPrice {
	p := dollars(input, output)
	p.CachedInputPerMillionTokens, p.CacheWritePerMillionTokens = read, written
	return p
}

func TestACallCostsItsTokensTimesThePrice(t *testing.T) {
	for name, test := range map[string]struct {
		price *v1alpha1.ModelPrice
		usage model.Usage
		want  string
	}{
		"a million of each": {dollars("3", "15"), model.Usage{InputTokens: 1e6, OutputTokens: 1e6}, "18"},
		"a few":             {dollars("3", "15"), model.Usage{InputTokens: 120, OutputTokens: 34}, "0.00087"},
		"inexact in floats": {dollars("0.1", "0.2"), model.Usage{InputTokens: 1e6, OutputTokens: 1e6}, "0.3"},
		"the least":         {dollars("0.000001", "0"), model.Usage{InputTokens: 1}, "0.000000000001"},
		"nothing":           {dollars("0", "0.000000"), model.Usage{InputTokens: 5, OutputTokens: 5}, "0"},
		"an input alone":    {dollars("0.25", "2"), model.Usage{InputTokens: 8}, "0.000002"},
		"an output alone":   {dollars("0.25", "2"), model.Usage{OutputTokens: 8}, "0.000016"},
		"more than 64 bits": {
			dollars("999999.999999", "999999.999999"),
			model.Usage{InputTokens: math.MaxInt64, OutputTokens: math.MaxInt64},
			"18446744073691104869.926290448386",
		},
		"a cache": {
			cached("3", "0.3", "3.75", "15"),
			model.Usage{InputTokens: 1125, CacheReadTokens: 1000, CacheWriteTokens: 100, OutputTokens: 15},
			"0.000975",
		},
		"a cache without its own price": {
			dollars("3", "15"),
			model.Usage{InputTokens: 1125, CacheReadTokens: 1000, CacheWriteTokens: 100, OutputTokens: 15},
			"0.0036",
		},
		"a cache that is free": {
			cached("3", "0", "0", "15"),
			model.Usage{InputTokens: 1125, CacheReadTokens: 1000, CacheWriteTokens: 100},
			"0.000075",
		},
		"more from the cache than read": {
			cached("3", "0.3", "3.75", "15"),
			model.Usage{InputTokens: 10, CacheReadTokens: 1000, CacheWriteTokens: 1000},
			"0.000003",
		},
		"more put there than is left": {
			cached("3", "0.3", "4", "15"), model.Usage{InputTokens: 10, CacheReadTokens: 4, CacheWriteTokens: 1000}, "0.0000252",
		},
		"nonsense from the server": {
			cached("3", "0.3", "4", "15"),
			model.Usage{InputTokens: 10, CacheReadTokens: -5, CacheWriteTokens: -5, OutputTokens: -7},
			"0.00003",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Of(test.price, test.usage)
			if got == nil || *got != (v1alpha1.Cost{Currency: "USD", Amount: test.want}) {
				t.Errorf("cost %+v, want %s", got, test.want)
			}
		})
	}
}

func TestWhatIsNotKnownHasNoCost(t *testing.T) {
	some := model.Usage{InputTokens: 1, OutputTokens: 1}
	for name, test := range map[string]struct {
		price *v1alpha1.ModelPrice
		usage model.Usage
	}{
		"no price":           {nil, some},
		"no tokens":          {dollars("3", "15"), model.Usage{}},
		"less than none":     {dollars("3", "15"), model.Usage{InputTokens: -1, OutputTokens: -1}},
		"no decimal":         {dollars("3", "much"), some},
		"an empty one":       {dollars("", "15"), some},
		"a negative one":     {dollars("-3", "15"), some},
		"a sign":             {dollars("+3", "15"), some},
		"an exponent":        {dollars("3e2", "15"), some},
		"too many places":    {dollars("0.0000001", "15"), some},
		"no whole":           {dollars(".5", "15"), some},
		"no fraction":        {dollars("5.", "15"), some},
		"two points":         {dollars("5.5.5", "15"), some},
		"a cache of nothing": {cached("3", "x", "", "15"), some},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Of(test.price, test.usage); got != nil {
				t.Errorf("cost %+v", got)
			}
		})
	}
}

func TestCostsAddUpByCurrency(t *testing.T) {
	usd, eur := v1alpha1.Cost{Currency: "USD", Amount: "0.9"}, v1alpha1.Cost{Currency: "EUR", Amount: "2"}
	full := []v1alpha1.Cost{
		{Currency: "AUD", Amount: "1"},
		{Currency: "CHF", Amount: "1"},
		{Currency: "EUR", Amount: "1"},
		{Currency: "USD", Amount: "0.100000000001"},
	}
	for name, test := range map[string]struct {
		to, more []v1alpha1.Cost
		want     []v1alpha1.Cost
		ok       bool
	}{
		"nothing to nothing": {nil, nil, nil, true},
		"the first":          {nil, []v1alpha1.Cost{usd}, []v1alpha1.Cost{usd}, true},
		"nothing to one":     {[]v1alpha1.Cost{usd}, nil, []v1alpha1.Cost{usd}, true},
		"the same currency": {
			[]v1alpha1.Cost{usd}, []v1alpha1.Cost{usd}, []v1alpha1.Cost{{Currency: "USD", Amount: "1.8"}}, true,
		},
		"another one": {[]v1alpha1.Cost{usd}, []v1alpha1.Cost{eur}, []v1alpha1.Cost{eur, usd}, true},
		"both": {
			[]v1alpha1.Cost{eur}, []v1alpha1.Cost{usd, eur}, []v1alpha1.Cost{{Currency: "EUR", Amount: "4"}, usd}, true,
		},
		"to a full list": {
			full,
			[]v1alpha1.Cost{usd},
			append(slices.Clone(full[:3]), v1alpha1.Cost{Currency: "USD", Amount: "1.000000000001"}),
			true,
		},
		"no room":           {full, []v1alpha1.Cost{usd, {Currency: "JPY", Amount: "1"}}, full, false},
		"an invalid amount": {full, []v1alpha1.Cost{{Currency: "USD", Amount: "-1"}}, full, false},
		"to a changed status": {
			[]v1alpha1.Cost{{Currency: "USD", Amount: "much"}},
			[]v1alpha1.Cost{usd},
			[]v1alpha1.Cost{{Currency: "USD", Amount: "much"}},
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			before, added := slices.Clone(test.to), slices.Clone(test.more)
			got, ok := Add(test.to, test.more...)
			if ok != test.ok || !reflect.DeepEqual(got, test.want) {
				t.Errorf("sum %+v, %v, want %+v", got, ok, test.want)
			}
			if !slices.Equal(test.to, before) || !slices.Equal(test.more, added) {
				t.Errorf("the summands have changed to %+v and %+v", test.to, test.more)
			}
		})
	}
}

// amounts matches the amounts of a status, but for their length, which has room for 51 digits in front of the point.
var amounts = regexp.MustCompile(`^(0|[1-9][0-9]{0,50})(\.[0-9]{0,11}[1-9])?$`)

// FuzzCost checks that a cost is exact, never negative, monotone in every count, and adds up without a loss.
func FuzzCost(f *testing.F) {
	f.Add(
		int64(120),
		int64(100),
		int64(15),
		int64(34),
		uint64(3_000_000),
		uint64(300_000),
		uint64(3_750_000),
		uint64(15_000_000),
		uint8(0),
		int64(1),
	)
	f.Add(
		int64(math.MaxInt64),
		int64(0),
		int64(math.MaxInt64),
		int64(math.MaxInt64),
		uint64(999999999999),
		uint64(0),
		uint64(1),
		uint64(999999999999),
		uint8(3),
		int64(7),
	)
	f.Add(
		int64(-4),
		int64(-1),
		int64(9),
		int64(2),
		uint64(1),
		uint64(10),
		uint64(100),
		uint64(1000),
		uint8(1),
		int64(math.MaxInt64),
	)
	f.Fuzz(func(t *testing.T, input, read, written, output int64, in, rd, wr, out uint64, which uint8, more int64) {
		const highest = 1_000_000_000_000 // millionths: what a price stays below
		micro := []uint64{in % highest, rd % highest, wr % highest, out % highest}
		price := cached(priceOf(micro[0]), priceOf(micro[1]), priceOf(micro[2]), priceOf(micro[3]))
		usage := model.Usage{InputTokens: input, CacheReadTokens: read, CacheWriteTokens: written, OutputTokens: output}
		got := Of(price, usage)
		if input <= 0 && output <= 0 {
			if got != nil {
				t.Fatalf("cost %+v of no tokens", got)
			}
			return
		}
		if got == nil || got.Currency != "USD" || !amounts.MatchString(got.Amount) {
			t.Fatalf("cost %+v", got)
		}
		value := exact(t, got.Amount)
		if want := byHand(micro, usage); value.Cmp(want) != 0 {
			t.Fatalf("cost %s, want %s", got.Amount, want.FloatString(20))
		}
		if grown := grow(
			usage,
			which,
			more,
		); grown.InputTokens >= grown.CacheReadTokens &&
			grown.InputTokens-max(grown.CacheReadTokens, 0) >= grown.CacheWriteTokens {
			if next := exact(t, Of(price, grown).Amount); whole(usage) && next.Cmp(value) < 0 {
				t.Fatalf("%+v cost %s, %+v only %s", usage, value, grown, next)
			}
		}
		twice, ok := Add([]v1alpha1.Cost{*got}, *got)
		if !ok || exact(t, twice[0].Amount).Cmp(new(big.Rat).Add(value, value)) != 0 ||
			!amounts.MatchString(twice[0].Amount) {
			t.Fatalf("twice %s is %+v", got.Amount, twice)
		}
	})
}

// priceOf writes millionths as a price.
func priceOf(micro uint64) v1alpha1.Price {
	text := new(big.Rat).SetFrac(new(big.Int).SetUint64(micro), big.NewInt(1e6)).FloatString(6)
	return v1alpha1.Price(strings.TrimSuffix(strings.TrimRight(text, "0"), "."))
}

func exact(t *testing.T, amount string) *big.Rat {
	t.Helper()
	value, ok := new(big.Rat).SetString(amount)
	if !ok || value.Sign() < 0 {
		t.Fatalf("amount %q", amount)
	}
	return value
}

// byHand is the cost by fractions.
func byHand(micro []uint64, u model.Usage) *big.Rat {
	input, output := max(u.InputTokens, 0), max(u.OutputTokens, 0)
	read := min(max(u.CacheReadTokens, 0), input)
	written := min(max(u.CacheWriteTokens, 0), input-read)
	sum := new(big.Rat)
	for i, tokens := range []int64{input - read - written, read, written, output} {
		each := new(big.Rat).SetFrac(new(big.Int).SetUint64(micro[i]), big.NewInt(1e12))
		sum.Add(sum, each.Mul(each, new(big.Rat).SetInt64(tokens)))
	}
	return sum
}

// whole reports whether the counts of a usage fit together.
func whole(u model.Usage) bool {
	return u.InputTokens >= 0 && u.OutputTokens >= 0 && u.CacheReadTokens >= 0 && u.CacheWriteTokens >= 0 &&
		u.CacheReadTokens <= u.InputTokens && u.CacheWriteTokens <= u.InputTokens-u.CacheReadTokens
}

// grow makes one count larger, and that of all input with one of its parts.
func grow(u model.Usage, which uint8, more int64) model.Usage {
	add := func(to *int64) { *to += min(max(more, 0), math.MaxInt64-max(*to, 0)) }
	switch which % 4 {
	case 0:
		add(&u.InputTokens)
	case 1:
		more = min(max(more, 0), math.MaxInt64-max(u.InputTokens, 0), math.MaxInt64-max(u.CacheReadTokens, 0))
		add(&u.InputTokens)
		add(&u.CacheReadTokens)
	case 2:
		more = min(max(more, 0), math.MaxInt64-max(u.InputTokens, 0), math.MaxInt64-max(u.CacheWriteTokens, 0))
		add(&u.InputTokens)
		add(&u.CacheWriteTokens)
	default:
		add(&u.OutputTokens)
	}
	return u
}
