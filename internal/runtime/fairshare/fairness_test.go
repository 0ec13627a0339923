package fairshare

import (
	"fmt"
	"testing"
)

// waited plays a Pool in rounds: in each, the model calls that hold a place end, and hostile namespaces ask for 16
// times as much as there is. It returns how many rounds the calls of the quiet namespace, which makes one after
// another, take on average.
func waited(hostile, calls int) float64 {
	const places = 64
	p := NewPool(Options{Total: Amount{Places: places}})
	var shares []*Share
	ask := func(namespace string) *Share {
		s, err := p.Request(Request{Namespace: namespace, Amount: Amount{Places: 1}})
		if err != nil {
			panic(err)
		}
		return s
	}
	flood := func() {
		for n := 0; hostile > 0 && len(shares) < 16*places; n++ {
			shares = append(shares, ask(fmt.Sprint("hostile-", n%hostile)))
		}
	}
	// A round is as long as a call: what holds a place ends, and what waits is served.
	round := func() {
		ended, rest := shares[:0:0], shares[:0:0]
		for _, s := range shares {
			if s.Held() {
				ended = append(ended, s)
			} else {
				rest = append(rest, s)
			}
		}
		shares = rest
		for _, s := range ended {
			s.Release()
		}
		flood()
	}
	flood()
	rounds := 0
	for range calls {
		quiet := ask("quiet")
		for rounds++; !quiet.Held(); rounds++ {
			round()
		}
		round()
		quiet.Release()
	}
	return float64(rounds) / float64(calls)
}

// slower is how many times as long the calls of a quiet namespace take beside hostile ones as alone, in the same run.
func slower(hostile, calls int) float64 {
	return waited(hostile, calls) / waited(0, calls)
}

func TestAQuietNamespaceIsHardlySlowerBesideHostileOnes(t *testing.T) {
	for hostile, most := range map[int]float64{1: 1.01, 50: 2} {
		if ratio := slower(hostile, 50); ratio < 1 || ratio > most {
			t.Errorf(
				"beside %d hostile namespaces calls take %.2f times as long as alone, want at most %.2f",
				hostile,
				ratio,
				most,
			)
		}
	}
}

// BenchmarkAQuietNamespace reports the ratio for more calls: go test -bench AQuietNamespace -run -
// ./internal/runtime/fairshare
func BenchmarkAQuietNamespace(b *testing.B) {
	for _, hostile := range []int{1, 50} {
		b.Run(fmt.Sprintf("beside-%d", hostile), func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(slower(hostile, 100), "times-as-long")
			}
		})
	}
}
