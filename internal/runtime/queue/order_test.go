package queue

import (
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

func named(name string, created time.Time) *v1alpha1.Turn {
	return &v1alpha1.Turn{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(created)}}
}

func TestNaturalOrderOfNames(t *testing.T) {
	long := strings.Repeat("9", 40)
	for name, want := range map[string][]string{
		"numbers by value":               {"demo-1", "demo-2", "demo-9", "demo-10", "demo-11", "demo-100"},
		"numbers in the middle":          {"a1b", "a2a", "a2b", "a10a"},
		"several numbers":                {"t-1-2", "t-1-10", "t-2-1", "t-10-1"},
		"a prefix comes first":           {"demo", "demo-", "demo-1", "demo-1-a"},
		"digits come before letters":     {"a1", "aa"},
		"letters by their bytes":         {"a", "b", "ba", "c"},
		"equal numbers, then the rest":   {"t-01-a", "t-1-b", "t-001-c"},
		"leading zeros as plain strings": {"t-001", "t-01", "t-1"},
		"zero is a number":               {"t-0", "t-00", "t-1"},
		"longer than any integer type": {
			"t-" + long, "t-1" + strings.Repeat("0", 40), "t-1" + strings.Repeat("0", 39) + "1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				got := slices.Clone(want)
				rand.Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
				slices.SortFunc(got, naturalCompare)
				if !slices.Equal(got, want) {
					t.Fatalf("sorted %v, want %v", got, want)
				}
			}
		})
	}
}

// A sort by an order that is not transitive depends on the input: two managers would run the Turns differently.
func TestNaturalOrderIsTotal(t *testing.T) {
	names := []string{"9-9--a", "09a--1", "9"}
	for range 60 {
		name := make([]byte, 1+rand.IntN(6))
		for i := range name {
			name[i] = "019a-"[rand.IntN(5)]
		}
		names = append(names, string(name))
	}
	for _, a := range names {
		for _, b := range names {
			if naturalCompare(a, b) != -naturalCompare(b, a) || naturalCompare(a, b) == 0 && a != b {
				t.Errorf("%q and %q compare as %d and %d", a, b, naturalCompare(a, b), naturalCompare(b, a))
			}
			for _, c := range names {
				if naturalCompare(a, b) <= 0 && naturalCompare(b, c) <= 0 && naturalCompare(a, c) > 0 {
					t.Errorf("%q comes before %q, that before %q, and that before the first", a, b, c)
				}
			}
		}
	}
}

func TestOrderIsByCreationTimeThenName(t *testing.T) {
	first := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	want := []*v1alpha1.Turn{
		named(
			"z-10",
			first,
		),
		named("a-2", first.Add(time.Second)),
		named("a-10", first.Add(time.Second)),
		named("a-1", first.Add(time.Minute)),
	}
	for range 20 {
		got := slices.Clone(want)
		rand.Shuffle(len(got), func(i, j int) { got[i], got[j] = got[j], got[i] })
		inOrder(got)
		if !slices.Equal(got, want) {
			t.Fatalf("order %v", got)
		}
	}
}

// The order is total: exactly one of before, equal and after holds, only equal names are equal, and it is transitive.
func FuzzNaturalCompareIsATotalOrder(f *testing.F) {
	f.Add("demo-1", "demo-10", "demo-2")
	f.Add("t-01", "t-1", "t-001")
	f.Add("a00b1", "a0b01", "a000b1")
	f.Add("", "0", "00")
	f.Add("1a", "01", "1-")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		if (naturalCompare(a, b) == 0) != (a == b) {
			t.Fatalf("%q and %q compare as %d", a, b, naturalCompare(a, b))
		}
		if naturalCompare(a, b) != -naturalCompare(b, a) {
			t.Fatalf("%q against %q: %d, and back: %d", a, b, naturalCompare(a, b), naturalCompare(b, a))
		}
		names := []string{a, b, c}
		slices.SortFunc(names, naturalCompare)
		for i := range names {
			for j := i + 1; j < len(names); j++ {
				if naturalCompare(names[i], names[j]) > 0 {
					t.Fatalf("not transitive: %q sorts before %q and compares as greater", names[i], names[j])
				}
			}
		}
	})
}

func FuzzNumbersCompareByValue(f *testing.F) {
	f.Add("007", "7")
	f.Add("18446744073709551616", "18446744073709551615")
	f.Add("", "0")
	f.Fuzz(func(t *testing.T, a, b string) {
		a, b = digits(a), digits(b)
		x, y := new(big.Int), new(big.Int)
		x.SetString("0"+a, 10)
		y.SetString("0"+b, 10)
		if got := compareNumbers(a, b); got != x.Cmp(y) {
			t.Fatalf("compareNumbers(%q, %q) = %d, want %d", a, b, got, x.Cmp(y))
		}
	})
}
