package fairshare

import "fmt"

// Amount is how much of each resource of a Pool something takes.
type Amount struct {
	// Places count concurrent work.
	Places int64
	// Bytes count the memory that it needs.
	Bytes int64
}

func (a Amount) plus(b Amount) Amount {
	return Amount{a.Places + b.Places, a.Bytes + b.Bytes}
}

func (a Amount) minus(b Amount) Amount {
	return Amount{a.Places - b.Places, a.Bytes - b.Bytes}
}

// within reports whether the amount exceeds the limit in nothing.
func (a Amount) within(limit Amount) bool {
	return a.Places <= limit.Places && a.Bytes <= limit.Bytes
}

// atLeastZero is the amount without negative parts.
func (a Amount) atLeastZero() Amount {
	return Amount{max(a.Places, 0), max(a.Bytes, 0)}
}

// largestFraction is the larger of the parts that the amount takes of the total of each resource.
func (a Amount) largestFraction(total Amount) float64 {
	return max(float64(a.Places)/float64(total.Places), float64(a.Bytes)/float64(total.Bytes))
}

// Ceiling is the most that one namespace may hold of a total: all but an eighth.
func Ceiling(total int64) int64 {
	return total - total/8
}

// TooLargeError reports a request for more than a namespace may ever hold: waiting would not help.
type TooLargeError struct {
	// Requested is the requested amount, Ceiling the maximum of a namespace.
	Requested, Ceiling Amount
}

// Error implements error.
func (e *TooLargeError) Error() string {
	if e.Requested.Bytes > e.Ceiling.Bytes {
		return fmt.Sprintf("%d bytes of memory are needed, but a namespace may use at most %d", e.Requested.Bytes,
			e.Ceiling.Bytes)
	}
	return fmt.Sprintf("%d places are needed, but a namespace may hold at most %d", e.Requested.Places, e.Ceiling.Places)
}
