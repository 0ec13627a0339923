package perf_test

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// traffic counts the requests of the controllers, by method and resource. Watches, which the API server ends now and
// then, are not among them.
type traffic struct {
	mu     sync.Mutex
	counts map[string]int
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (t *traffic) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.URL.Query().Get("watch") == "" {
			t.mu.Lock()
			if t.counts == nil {
				t.counts = map[string]int{}
			}
			t.counts[r.Method+" "+resourceOf(r.URL.Path)]++
			t.mu.Unlock()
		}
		return next.RoundTrip(r)
	})
}

// resourceOf is the resource in the path of a request, such as turns/status.
func resourceOf(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if i := slices.Index(parts, "namespaces"); i >= 0 && len(parts) > i+2 {
		parts = parts[i+2:]
		if len(parts) > 2 {
			return parts[0] + "/" + parts[2]
		}
		return parts[0]
	}
	return parts[len(parts)-1]
}

// all are the requests so far.
func (t *traffic) all() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.counts)
}

// writes are those of them that change something.
func (t *traffic) writes() map[string]int {
	found := t.all()
	maps.DeleteFunc(found, func(request string, _ int) bool { return strings.HasPrefix(request, http.MethodGet+" ") })
	return found
}

// ours are the controllers of Capstan. What plays the kubelet is not one of them.
var ours = []string{"harness", "agent", "model", "tool", "session", "turn", "toolresult"}

// reconciles are the passes of each of our controllers since the process began.
func reconciles() (map[string]float64, error) {
	families, err := metrics.Registry.Gather()
	if err != nil {
		return nil, err
	}
	counts := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "controller_runtime_reconcile_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "controller" && slices.Contains(ours, label.GetValue()) {
					counts[label.GetValue()] += metric.GetCounter().GetValue()
				}
			}
		}
	}
	return counts, nil
}

// atRest waits until nothing has been reconciled for longer than a pass may be put off because a cache lags, and gives
// the passes so far.
func atRest(ctx context.Context) map[string]float64 {
	GinkgoHelper()
	const quiet = 7 * time.Second
	var before map[string]float64
	var since time.Time
	Eventually(ctx, func() (bool, error) {
		now, err := reconciles()
		if err != nil || !maps.Equal(now, before) {
			before, since = now, time.Now()
			return false, err
		}
		return time.Since(since) > quiet, nil
	}).WithTimeout(2*time.Minute).WithPolling(200*time.Millisecond).Should(BeTrue(), "the controllers do not come to rest")
	return before
}
