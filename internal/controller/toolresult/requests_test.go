package toolresult

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/pacing"
)

// A tenant has as many ToolResults as it likes. Each was one request to create, and is one to delete.
func TestWhatTheResultsOfGoneTurnsCost(t *testing.T) {
	const turns, each = 10, 30
	for name, test := range map[string]struct {
		// watched reports whether the process has seen the Turns go, terminating whether their namespace goes too.
		watched, terminating bool
		reads, writes        int
	}{
		"of a running process":     {watched: true, writes: turns * each},
		"of a new process":         {reads: turns, writes: turns * each},
		"with the namespace":       {watched: true, terminating: true},
		"with it, and a new start": {reads: turns, terminating: true},
	} {
		t.Run(name, func(t *testing.T) {
			var results []client.Object
			for i := range turns * each {
				uid := types.UID(fmt.Sprintf("u%d", i%turns))
				result := judged(uid, metav1.ConditionTrue, v1alpha1.ReasonAccepted)
				result.Name, result.UID = fmt.Sprintf("answer-%d", i), types.UID(fmt.Sprintf("r%d", i))
				results = append(results, result)
			}
			reads, writes := 0, 0
			c := server(t, &writes, results...)
			live := interceptor.NewClient(c.(client.WithWatch), interceptor.Funcs{Get: func(
				ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption,
			) error {
				reads++
				return c.Get(ctx, key, o, options...)
			}})
			now := time.Now()
			r := &Reconciler{Client: c, Live: live, Clock: func() time.Time { return now }}
			if test.watched {
				queue := pacing.Options(1).NewQueue("test", pacing.Backoff())
				for i := range turns {
					turn := at(func(turn *v1alpha1.Turn) { turn.Namespace, turn.UID = "ns", types.UID(fmt.Sprintf("u%d", i)) })
					r.turnGone().Delete(t.Context(), event.DeleteEvent{Object: turn}, queue)
				}
				queue.ShutDown()
				if queue.Len() != len(results) {
					t.Fatalf("%d ToolResults are woken, want %d", queue.Len(), len(results))
				}
			}
			passes := func() {
				for _, result := range results {
					_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(result)})
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			passes()
			if test.terminating {
				if err := c.DeleteAllOf(t.Context(), &v1alpha1.ToolResult{}, client.InNamespace("ns")); err != nil {
					t.Fatal(err)
				}
			}
			now = now.Add(grace)
			passes()
			if reads != test.reads || writes != test.writes {
				t.Errorf("%d reads and %d writes, want %d and %d", reads, writes, test.reads, test.writes)
			}
		})
	}
}
