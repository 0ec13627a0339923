package turn

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/executor"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
)

func TestAnActivityThatKeepsFailingIsSpacedOut(t *testing.T) {
	woken := make(chan types.NamespacedName, 1)
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	pools := executor.Pools{Models: fairshare.NewPool(fairshare.Options{})}
	activities := executor.NewExecutor(pools, func(n types.NamespacedName) { woken <- n })
	r := &Reconciler{Activities: activities, Clock: func() time.Time { return now }}
	turn := &v1alpha1.Turn{}
	turn.Name, turn.UID = "demo-1", "t"
	broken := errors.New("no connection")
	started := 0
	fail := func(context.Context) (any, error) { started++; return nil, broken }
	m := &memory{}
	step, key := m.of(1), executor.Key{Turn: "t", Step: 1}
	pass := func(fn executor.Func) (*scope, any, bool, error) {
		s := &scope{turn: turn, memory: m}
		value, done, err := r.do(s, step, key, executor.Need{}, fn)
		return s, value, done, err
	}
	for failure := 1; failure <= 12; failure++ {
		if s, _, done, err := pass(fail); done || err != nil || !s.wakeAt.IsZero() {
			t.Fatalf("failure %d: the start gives %v, %v, a deadline at %v", failure, done, err, s.wakeAt)
		}
		<-woken
		if _, _, _, err := pass(fail); !errors.Is(err, broken) {
			t.Fatalf("failure %d: got %v", failure, err)
		}
		due := now.Add(pauses.After(failure))
		for range 3 {
			if s, _, done, err := pass(fail); done || err != nil || !s.wakeAt.Equal(due) {
				t.Fatalf("failure %d: %v, %v, a deadline at %v, want %v", failure, done, err, s.wakeAt, due)
			}
		}
		if started != failure {
			t.Fatalf("failure %d: started %d times", failure, started)
		}
		now = due
	}
	if pause := step.pauses[key].until.Sub(now.Add(-pauses.After(12))); pause != pauses.Longest {
		t.Errorf("the twelfth pause is %v", pause)
	}
	succeed := func(context.Context) (any, error) { return "done", nil }
	if _, _, _, err := pass(succeed); err != nil {
		t.Fatal(err)
	}
	<-woken
	if _, value, done, err := pass(succeed); !done || err != nil || value != "done" || len(step.pauses) != 0 {
		t.Errorf("got %v, %v, %v with pauses %v", value, done, err, step.pauses)
	}
}
