// Package ratio compares the time of an operation with that of a baseline in the same run: on a shared machine only
// their ratio is worth comparing with another run.
package ratio

import (
	"testing"
	"time"
)

// Report runs both functions in turns, and reports the time of the operation, that of the baseline, and their ratio.
// It asserts nothing about them.
func Report(b *testing.B, baseline, operation func() error) {
	b.Helper()
	var base, took time.Duration
	for b.Loop() {
		began := time.Now()
		if err := baseline(); err != nil {
			b.Fatalf("the baseline: %v", err)
		}
		between := time.Now()
		if err := operation(); err != nil {
			b.Fatalf("the operation: %v", err)
		}
		base, took = base+between.Sub(began), took+time.Since(between)
	}
	b.ReportMetric(0, "ns/op") // That of both together is of no use.
	b.ReportMetric(float64(base.Nanoseconds())/float64(b.N), "baseline-ns/op")
	b.ReportMetric(float64(took.Nanoseconds())/float64(b.N), "operation-ns/op")
	b.ReportMetric(float64(took)/float64(base), "ratio")
}
