package passes

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
)

func TestPassesAreCountedByObject(t *testing.T) {
	var logged []string
	var counter Counter
	log := counter.Count(funcr.New(func(_, line string) { logged = append(logged, line) }, funcr.Options{}))
	run := func(controller, namespace, name string) {
		log.WithValues("controller", controller).
			WithName("x").
			WithValues("namespace", namespace, "name", name).
			V(5).
			Info("Reconciling")
	}
	run("turn", "ours", "demo-1")
	run("turn", "theirs", "demo-1")
	run("job-player", "ours", "job")
	log.WithValues("controller", "turn", "namespace", "ours", "name", "demo-1").V(5).Info("Reconcile successful")
	log.WithValues("controller", "turn", "namespace", "ours", "name", "demo-1").Info("Reconciling")

	before := counter.In("ours")
	if !maps.Equal(before, Counts{"turn demo-1": 1}) {
		t.Errorf("counted %v", before)
	}
	run("turn", "ours", "demo-1")
	run("turn", "ours", "demo-2")
	run("turnip", "ours", "demo-2")
	run("session", "", "everywhere")
	run("model", "theirs", "simulated")
	after := counter.In("ours")
	if since := after.Since(
		before,
	); !maps.Equal(
		since,
		Counts{"turn demo-1": 1, "turn demo-2": 1, "turnip demo-2": 1, "session everywhere": 1},
	) {
		t.Errorf("counted %v since", since)
	}
	if since := after.Since(after); len(since) != 0 {
		t.Errorf("counted %v since now", since)
	}
	if turns := after.Of("turn"); !maps.Equal(turns, Counts{"turn demo-1": 2, "turn demo-2": 1}) {
		t.Errorf("counted %v of the controller", turns)
	}
	if len(logged) != 1 || !strings.Contains(fmt.Sprint(logged), `"name"="demo-1"`) {
		t.Errorf("logged %q, want the lines of the other logger", logged)
	}
}
