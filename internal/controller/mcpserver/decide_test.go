package mcpserver

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/wake"
	"github.com/capstan-dev/capstan/internal/runtime/mcp"
	"github.com/capstan-dev/capstan/internal/runtime/mcp/discovery"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
	"github.com/capstan-dev/capstan/internal/runtime/tool/inputschema"
)

var start = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return start.Add(d) }

// newServer is an MCPServer that no process has seen.
func newServer() *v1alpha1.MCPServer {
	return &v1alpha1.MCPServer{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "search", UID: "uid-1", Generation: 1},
		Spec:       v1alpha1.MCPServerSpec{RefreshInterval: &metav1.Duration{Duration: 10 * time.Minute}},
		Status:     v1alpha1.MCPServerStatus{ObservedGeneration: -1},
	}
}

func succeeded(t *testing.T, s *v1alpha1.MCPServer, when time.Time) attempt {
	t.Helper()
	c, err := discovery.Select([]mcp.Tool{{Name: "find"}}, nil, nil, inputschema.NewValidator())
	if err != nil {
		t.Fatal(err)
	}
	return attempt{uid: s.UID, generation: s.Generation, at: when, finding: discovery.Finding{
		Asked: true, Reason: v1alpha1.ReasonReady, Message: "fine", Catalog: c, ProtocolVersion: "2026-07-28",
	}}
}

func failed(s *v1alpha1.MCPServer, when time.Time, pause time.Duration) attempt {
	return attempt{uid: s.UID, generation: s.Generation, at: when, pause: pause, finding: discovery.Finding{
		Asked: true, Reason: v1alpha1.ReasonDiscoveryFailed, Message: "no response",
	}}
}

// Rules: MCP-01.
func TestWhenAServerIsAskedForItsTools(t *testing.T) {
	seen := func(ready metav1.ConditionStatus) *v1alpha1.MCPServer {
		s := newServer()
		s.Status = apply(s, succeeded(t, s, start))
		meta.SetStatusCondition(&s.Status.Conditions, metav1.Condition{
			Type: v1alpha1.ConditionReady, Status: ready, Reason: "Any",
		})
		return s
	}
	changed := seen(metav1.ConditionTrue)
	changed.Generation = 2
	ready := seen(metav1.ConditionTrue)
	older := seen(metav1.ConditionTrue)
	older.Status.DiscoveredConnection = ""
	for name, c := range map[string]struct {
		server *v1alpha1.MCPServer
		last   attempt
		now    time.Duration
		want   time.Duration
	}{
		"a new one":                  {newServer(), attempt{}, 0, 0},
		"a known one":                {ready, attempt{}, time.Minute, 9 * time.Minute},
		"after the interval":         {ready, attempt{}, 10 * time.Minute, 0},
		"not seen in the cache yet":  {newServer(), succeeded(t, newServer(), start), time.Minute, 9 * time.Minute},
		"a changed one":              {changed, succeeded(t, ready, start), time.Minute, 0},
		"a changed one at once":      {changed, succeeded(t, ready, start), 10 * time.Second, 20 * time.Second},
		"a changed one of a restart": {changed, attempt{}, 10 * time.Second, 20 * time.Second},
		"one of an older manager":    {older, attempt{}, time.Minute, 0},
		"not ready after a restart":  {seen(metav1.ConditionFalse), attempt{}, time.Minute, 0},
		"after a failure":            {newServer(), failed(newServer(), start, time.Minute), 0, time.Minute},
		"ready, after a failure": {
			ready, failed(ready, at(10*time.Minute), time.Minute), 10*time.Minute + 30*time.Second, 30 * time.Second,
		},
		"a noticed change": {ready, noticed(t, ready, 0), 10 * time.Second, 20 * time.Second},
		"a noticed change, seen by an earlier process": {ready, attempt{noticed: true}, 10 * time.Second, 20 * time.Second},
		"notices in vain":             {ready, noticed(t, ready, 2), 0, 2 * time.Minute},
		"notices in vain without end": {ready, noticed(t, ready, 1000), 0, 10 * time.Minute},
		"a notice after a failure":    {ready, noticedFailure(ready), 10 * time.Minute, time.Minute},
		"another one of the name":     {newServer(), attempt{uid: "uid-0", at: start}, 0, 0},
	} {
		if got := wait(c.server, c.last, at(c.now)); got != c.want {
			t.Errorf("%s: it waits for %s, want %s", name, got, c.want)
		}
	}
}

// noticed is an attempt after which the server has sent a notice, and before so many notices in vain.
func noticed(t *testing.T, s *v1alpha1.MCPServer, vain int) attempt {
	t.Helper()
	last := succeeded(t, s, start)
	last.noticed, last.vain = true, vain
	return last
}

func noticedFailure(s *v1alpha1.MCPServer) attempt {
	last := failed(s, at(10*time.Minute), time.Minute)
	last.noticed = true
	return last
}

// Rules: MCP-01.
func TestNoticesInVainAreHeededLater(t *testing.T) {
	s := newServer()
	s.Status = apply(s, succeeded(t, s, start))
	last := succeeded(t, s, start)
	for want := range 3 {
		if last.vain != want {
			t.Fatalf("%d notices in vain are counted, want %d", last.vain, want)
		}
		last.noticed = true
		last = succeeded(t, s, at(time.Minute)).after(last, s)
	}
	last.noticed = true
	s.Status.DiscoveredTools[0].Digest = "another"
	if last = succeeded(t, s, at(time.Minute)).after(last, s); last.vain != 0 {
		t.Error("a notice about a change is counted as one in vain")
	}
}

// Rules: MCP-01.
func TestANoticeDuringADiscoveryIsNotLost(t *testing.T) {
	r := &Reconciler{Wakes: &wake.Source{}}
	subject, key := mcp.Subject{Namespace: "ns", Name: "search"}, types.NamespacedName{Namespace: "ns", Name: "search"}
	r.Noticed(subject)
	if before := r.begin(key); !before.noticed || r.last(key).noticed {
		t.Fatal("a discovery does not see the notice before it")
	}
	r.Noticed(subject)
	if !r.last(key).noticed {
		t.Error("the notice is lost")
	}
}

func TestAServerStaysReadyWhileItDoesNotRespondForAShortTime(t *testing.T) {
	s := newServer()
	s.Status = apply(s, failed(s, start, time.Minute))
	if ready := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionReady); ready == nil ||
		ready.Status != metav1.ConditionFalse || ready.Reason != v1alpha1.ReasonDiscoveryFailed ||
		s.Status.ObservedGeneration != 1 {
		t.Fatalf("a server that never responded is %+v", s.Status)
	}
	s.Status = apply(s, succeeded(t, s, start))
	if len(s.Status.DiscoveredTools) != 1 || s.Status.ProtocolVersion == "" || s.Status.LastDiscoveryTime == nil ||
		!meta.IsStatusConditionTrue(s.Status.Conditions, v1alpha1.ConditionReady) {
		t.Fatalf("the status is %+v", s.Status)
	}
	for since, want := range map[time.Duration]bool{20 * time.Minute: true, 31 * time.Minute: false} {
		next := apply(s, failed(s, at(since), time.Minute))
		if got := meta.IsStatusConditionTrue(next.Conditions, v1alpha1.ConditionReady); got != want {
			t.Errorf("after %s it is ready: %t", since, got)
		}
		if len(next.DiscoveredTools) != 1 {
			t.Errorf("after %s its tools are %v", since, next.DiscoveredTools)
		}
	}
	s.Generation = 2
	s.Spec.URL = "https://elsewhere.example.org"
	if next := apply(s, failed(s, at(time.Minute), time.Minute)); next.DiscoveredConnection !=
		s.Status.DiscoveredConnection {
		t.Error("the tools of the earlier url are taken for those of the new one")
	}
	moved := s.DeepCopy()
	moved.Status = apply(s, succeeded(t, s, at(time.Minute)))
	if definition.Discovered(s) || !definition.Discovered(moved) {
		t.Errorf("the status is %+v, and then %+v", s.Status, moved.Status)
	}
	if next := apply(s, failed(s, at(time.Minute), time.Minute)); meta.IsStatusConditionTrue(next.Conditions,
		v1alpha1.ConditionReady) {
		t.Error("a changed server that does not respond is ready")
	}
}

func TestANamespaceHasTwoDiscoveriesAtOnce(t *testing.T) {
	r := &Reconciler{}
	for i, want := range []bool{true, true, false} {
		if got := r.enter("a"); got != want {
			t.Errorf("discovery %d has a place: %t", i+1, got)
		}
	}
	if !r.enter("b") {
		t.Error("another namespace has no place")
	}
	r.leave("a")
	if !r.enter("a") {
		t.Error("a place is lost")
	}
	for _, namespace := range []string{"a", "a", "b"} {
		r.leave(namespace)
	}
	if len(r.running) != 0 {
		t.Errorf("it keeps %v", r.running)
	}
}
