package turn

import (
	"context"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// requests counts the requests of a manager to the API server: all writes, and the reads past the cache.
type requests map[string]int

// counted makes the manager count its requests.
func (m *manager) counted() requests {
	made := requests{}
	m.Client = interceptor.NewClient(m.w.client.(client.WithWatch), interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			made["DELETE"]++
			return c.Delete(ctx, o, opts...)
		},
		DeleteAllOf: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteAllOfOption) error {
			made["DELETE all"]++
			return c.DeleteAllOf(ctx, o, opts...)
		},
		SubResourcePatch: func(
			ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption,
		) error {
			made["PATCH"]++
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
	m.Live = interceptor.NewClient(m.w.client.(client.WithWatch), interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption,
		) error {
			made["GET"]++
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			made["LIST"]++
			return c.List(ctx, l, opts...)
		},
	})
	return made
}

func TestWhatTheDeletionOfFinishedTurnsCosts(t *testing.T) {
	const n = 50
	deleteSession := func(w *world) {
		if err := w.client.Delete(t.Context(), w.session()); err != nil {
			t.Fatal(err)
		}
	}
	deleteTurns := func(w *world, names []string) {
		for _, name := range names {
			if err := w.client.Delete(t.Context(), w.turnNamed(name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, test := range map[string]struct {
		happens func(w *world, names []string, passes func())
		want    requests
	}{
		"a user deletes them": {
			func(w *world, names []string, passes func()) { deleteTurns(w, names); passes() },
			requests{},
		},
		"their namespace goes, Turns before Sessions": {
			func(w *world, names []string, passes func()) {
				deleteTurns(w, names)
				passes()
				deleteSession(w)
				passes()
			},
			requests{},
		},
		"their namespace goes, Sessions before Turns": {
			func(w *world, names []string, passes func()) {
				deleteSession(w)
				passes()
				deleteTurns(w, names)
				passes()
			},
			requests{},
		},
		"their Session is deleted": {
			func(w *world, _ []string, passes func()) {
				deleteSession(w)
				passes()
				w.sleep(orphanGrace)
				passes()
				passes()
			},
			requests{"GET": 1, "DELETE": n},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).begin()
			var names []string
			for i := range n {
				turn := w.newTurn(fmt.Sprintf("finished-%d", i), "Hello")
				w.create(turn)
				turn.Status.SessionUID, turn.Status.Plan = w.session().UID, &v1alpha1.TurnPlan{Step: 2}
				turn.Status.Phase, turn.Status.ObservedGeneration = v1alpha1.TurnPhaseSucceeded, turn.Generation
				turn.Status.Conditions = []metav1.Condition{
					{
						Type:               v1alpha1.ConditionFinished,
						Status:             metav1.ConditionTrue,
						Reason:             "EndTurn",
						LastTransitionTime: metav1.NewTime(w.present()),
					},
				}
				w.updateStatus(turn)
				names = append(names, turn.Name)
			}
			m := w.manager(0)
			made := m.counted()
			passes := func() {
				t.Helper()
				for _, name := range names {
					if _, err := m.passOf(name); err != nil {
						t.Fatal(err)
					}
				}
			}
			passes()
			test.happens(w, slices.Clone(names), passes)
			if fmt.Sprint(made) != fmt.Sprint(test.want) {
				t.Errorf("%d Turns cost %v, want %v", n, made, test.want)
			}
			if len(m.memories.byKey) != 0 {
				t.Errorf("%d Turns are still in memory", len(m.memories.byKey))
			}
		})
	}
}
