package fairshare

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestNamespacesTakeTurnsWhileRequestsAreScarce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRate(8, 8, nil)
		ctx, cancel := context.WithCancel(t.Context())
		made := map[string]int{}
		var mu sync.Mutex
		count := func(namespace string) int {
			mu.Lock()
			defer mu.Unlock()
			return made[namespace]
		}
		ask := func(namespace string, n int) {
			for range n {
				go func() {
					if r.Wait(ctx, namespace) == nil {
						mu.Lock()
						defer mu.Unlock()
						made[namespace]++
					}
				}()
			}
			synctest.Wait()
		}
		ask("loud", 1000)
		if count("loud") != 7 {
			t.Errorf("a namespace alone makes %d of 8 requests at once, want 7", count("loud"))
		}
		ask("quiet", 1)
		if count("quiet") != 1 {
			t.Error("another namespace has to wait for its first request")
		}
		<-time.After(8 * time.Second)
		synctest.Wait()
		alone := count("loud") - 7
		if alone < 50 || alone > 57 {
			t.Errorf("a namespace alone makes %d requests in 8 s at 8 a second, want all but an eighth", alone)
		}
		before := count("loud")
		ask("quiet", 1000)
		<-time.After(8 * time.Second)
		synctest.Wait()
		if loud, quiet := count("loud")-before, count("quiet")-1; loud < 28 || quiet < 28 || loud+quiet > 73 {
			t.Errorf("two namespaces make %d and %d requests in 8 s", loud, quiet)
		}
		cancel()
		synctest.Wait()
		r.mu.Lock()
		defer r.mu.Unlock()
		if n := len(r.tenants["loud"].lines) + len(r.tenants["quiet"].lines); n != 0 {
			t.Errorf("%d requests that were withdrawn are in line", n)
		}
		r.prune(time.Now().Add(time.Minute))
		if len(r.tenants) != 0 {
			t.Error("idle namespaces are remembered")
		}
	})
}

func TestATenthOfTheRequestsIsForThoseThatCanBeLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRate(80, 80, nil).Tenth()
		granted := map[string]int{}
		var mu sync.Mutex
		ask := func(namespace string, n int) (tickets []*Ticket) {
			for range n {
				tickets = append(tickets, r.Request(namespace, func() {
					mu.Lock()
					defer mu.Unlock()
					granted[namespace]++
				}))
			}
			return tickets
		}
		atOnce := 0
		loud := ask("loud", 1000)
		for _, ticket := range loud {
			if ticket.Granted() {
				atOnce++
			}
		}
		if atOnce != 7 || granted["loud"] != 0 {
			t.Errorf(
				"a namespace alone makes %d of 8 requests at once, and %d calls report it ready, want 7 and 0",
				atOnce,
				granted["loud"],
			)
		}
		if quiet := ask("quiet", 1); !quiet[0].Granted() {
			t.Error("another namespace has to wait for its first request")
		}
		ask("quiet", 1000)
		<-time.After(10 * time.Second)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if l, q := granted["loud"], granted["quiet"]; l+q > 80 || l < 35 || q < 35 {
			t.Errorf("two namespaces were granted %d and %d requests in 10 s at 8 a second", l, q)
		}
		for _, ticket := range loud {
			ticket.Withdraw()
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if n := len(r.tenants["loud"].lines); n != 0 {
			t.Errorf("%d requests that were withdrawn are in line", n)
		}
		if r.timer != nil {
			r.timer.Stop()
		}
	})
	if none := (*Ticket)(nil); !none.Granted() {
		t.Error("a request that no Rate bounds has to wait")
	}
}

func TestWhichRequestsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRate(1, 1, nil)
		through := 0
		transport := r.Transport(
			roundTrip(func(*http.Request) (*http.Response, error) { through++; return &http.Response{}, nil }),
		)
		get := func(path string) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://api"+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := transport.RoundTrip(request)
			if response != nil && response.Body != nil {
				_ = response.Body.Close()
			}
			return err
		}
		for _, c := range []struct {
			path  string
			waits bool
		}{
			{"/apis/capstan.dev/v1alpha1/namespaces/a/turns/x/status", false},
			{"/apis/capstan.dev/v1alpha1/namespaces/a/turns/x/status", true},
			{"/api/v1/namespaces/b/pods", true},
			{"/api/v1/pods?watch=true", false},
			{"/apis/coordination.k8s.io/v1/namespaces/capstan-system/leases/manager", false},
		} {
			if err := get(c.path); errors.Is(err, context.DeadlineExceeded) != c.waits {
				t.Errorf("%s: %v", c.path, err)
			}
		}
		if through != 3 {
			t.Errorf("%d requests went through", through)
		}
	})
	for path, want := range map[string]string{
		"/api/v1/namespaces/a/pods": "a", "/api/v1/namespaces/a": "a", "/apis/g/v1/namespaces/b/jobs/c/status": "b",
		"/api/v1/nodes": "", "/version": "",
	} {
		if got := namespaceOf(path); got != want {
			t.Errorf("%s is about %q", path, got)
		}
	}
}

func TestARequestCountsForTheNamespaceThatItIsChargedTo(t *testing.T) {
	charged := ""
	r := NewRate(1000, 1000, func(namespace string, _ time.Duration) { charged = namespace })
	transport := r.Transport(roundTrip(func(*http.Request) (*http.Response, error) { return &http.Response{}, nil }))
	for want, ctx := range map[string]context.Context{"models": t.Context(), "caller": ChargeTo(t.Context(), "caller")} {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://api/api/v1/namespaces/models/pods", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := transport.RoundTrip(request); err != nil || charged != want { //nolint:bodyclose // It has none.
			t.Errorf("it counts for %q, want %q, %v", charged, want, err)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
