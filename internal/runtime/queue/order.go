package queue

import (
	"cmp"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// inOrder sorts Turns as a Session runs them: by creation time, then by name in natural order, so that of ten Turns
// applied in one file `demo-2` comes before `demo-10`.
func inOrder(turns []*v1alpha1.Turn) {
	slices.SortStableFunc(turns, func(a, b *v1alpha1.Turn) int { return compare(*positionOf(a), *positionOf(b)) })
}

// positionOf is the place of a Turn.
func positionOf(turn *v1alpha1.Turn) *v1alpha1.QueuePosition {
	return &v1alpha1.QueuePosition{CreationTimestamp: turn.CreationTimestamp, Name: turn.Name}
}

func compare(a, b v1alpha1.QueuePosition) int {
	if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
		return c
	}
	return naturalCompare(a.Name, b.Name)
}

// naturalCompare compares runs of digits by their value and everything else by its bytes. Names that differ only in
// leading zeros are compared as plain strings, so that the order is total.
func naturalCompare(a, b string) int {
	left, right := a, b
	for left != "" && right != "" {
		ad, bd := digits(left), digits(right)
		if ad == "" || bd == "" {
			if left[0] != right[0] {
				return cmp.Compare(left[0], right[0])
			}
			left, right = left[1:], right[1:]
			continue
		}
		if c := compareNumbers(ad, bd); c != 0 {
			return c
		}
		left, right = left[len(ad):], right[len(bd):]
	}
	if c := cmp.Compare(len(left), len(right)); c != 0 {
		return c
	}
	return strings.Compare(a, b)
}

// digits is the run of ASCII digits that s begins with.
func digits(s string) string {
	end := 0
	for end < len(s) && s[end] >= '0' && s[end] <= '9' {
		end++
	}
	return s[:end]
}

// compareNumbers compares two runs of digits of any length by value.
func compareNumbers(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	if c := cmp.Compare(len(a), len(b)); c != 0 {
		return c
	}
	return strings.Compare(a, b)
}
