package toolresult

import (
	"context"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/fieldindex"
	"github.com/capstan-dev/capstan/internal/controller/pacing"
	"github.com/capstan-dev/capstan/internal/controller/wake"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
)

// judged is a ToolResult for Turn demo-1 with the UID, whose condition Accepted has the status and reason.
func judged(uid types.UID, status metav1.ConditionStatus, reason string) *v1alpha1.ToolResult {
	text := "yes"
	result := &v1alpha1.ToolResult{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "answer", UID: "r1"}}
	result.Spec = v1alpha1.ToolResultSpec{
		TurnRef: v1alpha1.TurnReference{Name: "demo-1", UID: uid},
		CallID:  "1-0",
		Result:  &text,
	}
	condition.SetAccepted(&result.Status.Conditions, 1, metav1.Now(), status, reason, "")
	return result
}

// by makes the Turn with the UID the one that has judged the ToolResult.
func by(uid types.UID, result *v1alpha1.ToolResult) *v1alpha1.ToolResult {
	result.Status.TurnUID = uid
	return result
}

// server has the objects, and counts the writes. It has the manager's index of Turn names.
func server(t *testing.T, writes *int, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	builder := fake.NewClientBuilder().
		WithScheme(scheme).
		WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.ToolResult{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				*writes++
				return c.Delete(ctx, o, opts...)
			},
			SubResourcePatch: func(
				ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch,
				opts ...client.SubResourcePatchOption,
			) error {
				*writes++
				return c.SubResource(sub).Patch(ctx, o, patch, opts...)
			},
		})
	for _, index := range fieldindex.All() {
		if _, ok := index.Object.(*v1alpha1.ToolResult); ok {
			builder = builder.WithIndex(index.Object, index.Field, index.Values)
		}
	}
	return builder.Build()
}

func TestAToolResultGoesWithItsTurn(t *testing.T) {
	is := func(uid types.UID) *v1alpha1.Turn {
		return &v1alpha1.Turn{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo-1", UID: uid}}
	}
	for name, test := range map[string]struct {
		result       *v1alpha1.ToolResult
		cached, live *v1alpha1.Turn
		deleted      bool
	}{
		"accepted, and the Turn was deleted": {
			result: judged("u1", metav1.ConditionTrue, v1alpha1.ReasonAccepted), deleted: true,
		},
		"accepted, and the Turn was replaced": {
			result: judged("u1", metav1.ConditionTrue, v1alpha1.ReasonAccepted), cached: is("u2"), live: is("u2"), deleted: true,
		},
		"accepted, and the Turn is there": {
			result: judged("u1", metav1.ConditionTrue, v1alpha1.ReasonAccepted), cached: is("u1"), live: is("u1"),
		},
		"accepted, and only the cache lacks": {
			result: judged("u1", metav1.ConditionTrue, v1alpha1.ReasonAccepted), live: is("u1"),
		},
		"accepted, of no known Turn": {result: judged("", metav1.ConditionTrue, v1alpha1.ReasonAccepted)},
		"accepted by name, by a Turn that left": {
			result: by("u1", judged("", metav1.ConditionTrue, v1alpha1.ReasonAccepted)), deleted: true,
		},
		"accepted by name, by another Turn": {
			result: by("u1", judged("", metav1.ConditionTrue, v1alpha1.ReasonAccepted)), cached: is("u2"), live: is("u2"),
			deleted: true,
		},
		"accepted by name, by this Turn": {
			result: by("u1", judged("", metav1.ConditionTrue, v1alpha1.ReasonAccepted)), cached: is("u1"), live: is("u1"),
		},
		"refused by name, by a Turn that left": {
			result: by("u1", judged("", metav1.ConditionFalse, v1alpha1.ReasonCallClosed)), deleted: true,
		},
		"refused, and the Turn was deleted": {
			result: judged("u1", metav1.ConditionFalse, v1alpha1.ReasonCallClosed), deleted: true,
		},
		"refused because there was no Turn": {result: judged("u1", metav1.ConditionFalse, v1alpha1.ReasonTurnNotFound)},
		"refused because the Turn is another": {
			result: judged("u1", metav1.ConditionFalse, v1alpha1.ReasonTurnReplaced), cached: is("u2"), live: is("u2"),
		},
		"kept for later, and the Turn was deleted": {
			result: judged("u1", metav1.ConditionUnknown, v1alpha1.ReasonCallPending), deleted: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			writes := 0
			cache, api := []client.Object{test.result}, []client.Object{test.result}
			if test.cached != nil {
				cache = append(cache, test.cached)
			}
			if test.live != nil {
				api = append(api, test.live)
			}
			c := server(t, &writes, cache...)
			now := time.Now()
			r := &Reconciler{Client: c, Live: server(t, &writes, api...), Clock: func() time.Time { return now }}
			for range 2 {
				next, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(test.result)})
				if err != nil {
					t.Fatal(err)
				}
				now = now.Add(next.RequeueAfter)
			}
			err := c.Get(t.Context(), client.ObjectKeyFromObject(test.result), &v1alpha1.ToolResult{})
			if deleted := apierrors.IsNotFound(err); deleted != test.deleted {
				t.Errorf("deleted: %v (%v), want %v", deleted, err, test.deleted)
			}
			if most := map[bool]int{true: 1}[test.deleted]; writes != most {
				t.Errorf("%d writes, want %d", writes, most)
			}
		})
	}
}

// TestAToolResultThatIsAppliedAgainStays covers a ToolResult that a GitOps tool applies again after it was deleted with
// its Turn.
func TestAToolResultThatIsAppliedAgainStays(t *testing.T) {
	again := judged("u1", metav1.ConditionUnknown, v1alpha1.ReasonPending)
	writes := 0
	c := server(t, &writes, again)
	r := &Reconciler{Client: c, Live: c, Clock: time.Now}
	for range 3 {
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(again)}); err != nil {
			t.Fatal(err)
		}
	}
	shown := &v1alpha1.ToolResult{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(again), shown); err != nil {
		t.Fatal(err)
	}
	accepted := meta.FindStatusCondition(shown.Status.Conditions, v1alpha1.ConditionAccepted)
	if accepted == nil || accepted.Status != metav1.ConditionFalse || accepted.Reason != v1alpha1.ReasonTurnNotFound {
		t.Errorf("its status is %+v", accepted)
	}
	if writes != 1 {
		t.Errorf("%d writes, want 1", writes)
	}
}

func TestTheEndOfATurnWakesTheToolResultsThatNameIt(t *testing.T) {
	in := func(uid types.UID) *v1alpha1.Turn {
		return at(func(turn *v1alpha1.Turn) { turn.Namespace, turn.UID = "ns", uid })
	}
	for name, test := range map[string]struct {
		happens func(events handler.EventHandler, queue wake.Queue)
		woken   int
	}{
		"it is deleted": {func(events handler.EventHandler, queue wake.Queue) {
			events.Delete(t.Context(), event.DeleteEvent{Object: in("u1")}, queue)
		}, 2},
		"it is replaced": {func(events handler.EventHandler, queue wake.Queue) {
			events.Update(t.Context(), event.UpdateEvent{ObjectOld: in("u1"), ObjectNew: in("u2")}, queue)
		}, 2},
		"it replaces another one": {func(events handler.EventHandler, queue wake.Queue) {
			events.Update(t.Context(), event.UpdateEvent{ObjectOld: in("u0"), ObjectNew: in("u1")}, queue)
		}, 0},
		"it changes": {func(events handler.EventHandler, queue wake.Queue) {
			events.Update(t.Context(), event.UpdateEvent{ObjectOld: in("u1"), ObjectNew: in("u1")}, queue)
		}, 0},
		"it is created": {func(events handler.EventHandler, queue wake.Queue) {
			events.Create(t.Context(), event.CreateEvent{Object: in("u1")}, queue)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			byName := judged("", metav1.ConditionTrue, v1alpha1.ReasonAccepted)
			byName.Name = "by-name"
			accepted := by("u1", byName.DeepCopy())
			accepted.Name = "answer-by-name"
			writes := 0
			r := &Reconciler{
				Client: server(
					t,
					&writes,
					judged("u1", metav1.ConditionTrue, v1alpha1.ReasonAccepted),
					byName,
					accepted,
				),
				Clock: time.Now,
			}
			queue := pacing.Options(1).NewQueue("test", pacing.Backoff())
			defer queue.ShutDown()
			test.happens(r.turnGone(), queue)
			if queue.Len() != test.woken {
				t.Fatalf("%d are woken, want %d", queue.Len(), test.woken)
			}
			if _, known := r.gone.Since("u1", time.Now()); known != (test.woken > 0) {
				t.Errorf("the Turn is known to be gone: %v", known)
			}
			if test.woken == 0 {
				return
			}
			for range test.woken {
				item, _ := queue.Get()
				queue.Done(item)
				if !strings.HasPrefix(item.Name, "answer") {
					t.Errorf("woken: %v", item)
				}
			}
		})
	}
}
