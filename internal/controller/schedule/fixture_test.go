package schedule

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/fieldindex"
	"github.com/capstan-dev/capstan/internal/controller/wake"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
)

// began is when the Schedule of the tests was created.
var began = time.Date(2026, 3, 2, 11, 59, 30, 0, time.UTC)

var nightlyKey = types.NamespacedName{Namespace: "ns", Name: "nightly"}

// errKilled ends a pass in the middle, as the end of its process does.
var errKilled = errors.New("killed")

// bench is an API server with managers. It counts writes, and can cut a pass off before or after one of them.
type bench struct {
	t    *testing.T
	live client.WithWatch
	now  time.Time
	// writes are those so far.
	writes []string
	// cut is the number of the write at which the process is killed, from 1; applied reports whether the server has
	// carried it out. 0: none.
	cut     int
	applied bool
	// before is called before each write; nil for nothing.
	before func(write string)
	// created counts how often each Turn was created.
	created map[string]int
	uids    int
}

func newBench(t *testing.T, objects ...client.Object) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.Schedule{}, &v1alpha1.Turn{}, &v1alpha1.Session{})
	for _, index := range fieldindex.All() {
		builder = builder.WithIndex(index.Object, index.Field, index.Values)
	}
	return &bench{t: t, live: builder.Build(), now: began, created: map[string]int{}}
}

// write carries out a write, unless the process is killed before it.
func (b *bench) write(name string, do func() error) error {
	if b.before != nil {
		b.before(name)
	}
	b.writes = append(b.writes, name)
	killed := b.cut > 0 && len(b.writes) == b.cut
	if killed && !b.applied {
		return errKilled
	}
	err := do()
	if killed {
		return errKilled
	}
	return err
}

// manager returns the reconciler of a process that has just started.
func (b *bench) manager() *Reconciler {
	c := interceptor.NewClient(b.live, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			return b.write(fmt.Sprintf("create %T", o), func() error {
				b.uids++
				o.SetUID(types.UID(fmt.Sprintf("uid-%d", b.uids)))
				o.SetCreationTimestamp(metav1.NewTime(b.now))
				err := c.Create(ctx, o, options...)
				if _, isTurn := o.(*v1alpha1.Turn); isTurn && err == nil {
					b.created[o.GetName()]++
				}
				return err
			})
		},
		Patch: func(
			ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption,
		) error {
			return b.write(fmt.Sprintf("patch %T", o), func() error { return c.Patch(ctx, o, patch, options...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			return b.write(fmt.Sprintf("delete %T", o), func() error { return c.Delete(ctx, o, options...) })
		},
		SubResourcePatch: func(
			ctx context.Context, c client.Client, name string, o client.Object, patch client.Patch,
			options ...client.SubResourcePatchOption,
		) error {
			return b.write(fmt.Sprintf("patch %T %s", o, name), func() error {
				return c.SubResource(name).Patch(ctx, o, patch, options...)
			})
		},
	})
	return &Reconciler{Client: c, Live: b.live, Clock: func() time.Time { return b.now }, Wakes: &wake.Source{}}
}

// pass runs one pass of a new process, and fails on an error other than that of a kill.
func (b *bench) pass() ctrl.Result {
	b.t.Helper()
	result, err := b.manager().Reconcile(b.t.Context(), ctrl.Request{NamespacedName: nightlyKey})
	if err != nil && !errors.Is(err, errKilled) {
		b.t.Fatal(err)
	}
	return result
}

func (b *bench) schedule() *v1alpha1.Schedule {
	b.t.Helper()
	s := &v1alpha1.Schedule{}
	if err := b.live.Get(b.t.Context(), nightlyKey, s); err != nil {
		b.t.Fatal(err)
	}
	return s
}

func (b *bench) turns() []v1alpha1.Turn {
	b.t.Helper()
	var list v1alpha1.TurnList
	if err := b.live.List(b.t.Context(), &list); err != nil {
		b.t.Fatal(err)
	}
	return list.Items
}

func (b *bench) sessions() []v1alpha1.Session {
	b.t.Helper()
	var list v1alpha1.SessionList
	if err := b.live.List(b.t.Context(), &list); err != nil {
		b.t.Fatal(err)
	}
	return list.Items
}

// end ends every Turn that runs.
func (b *bench) end(succeeded metav1.ConditionStatus) {
	b.t.Helper()
	turns := b.turns()
	for i := range turns {
		if meta.IsStatusConditionTrue(turns[i].Status.Conditions, v1alpha1.ConditionFinished) {
			continue
		}
		phase := v1alpha1.TurnPhaseSucceeded
		if succeeded != metav1.ConditionTrue {
			phase = v1alpha1.TurnPhaseFailed
		}
		turns[i].Status.Phase = phase
		conditions, at := &turns[i].Status.Conditions, metav1.NewTime(b.now)
		condition.Set(conditions, 1, at, v1alpha1.ConditionFinished, metav1.ConditionTrue, "Finished", "")
		condition.Set(conditions, 1, at, v1alpha1.ConditionSucceeded, succeeded, "EndTurn", "")
		if err := b.live.Status().Update(b.t.Context(), &turns[i]); err != nil {
			b.t.Fatal(err)
		}
	}
}

// change changes the Schedule as a user does.
func (b *bench) change(change func(*v1alpha1.Schedule)) {
	b.t.Helper()
	s := b.schedule()
	change(s)
	s.Generation++
	if err := b.live.Update(b.t.Context(), s); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) ready() (reason, message string) {
	b.t.Helper()
	c := meta.FindStatusCondition(b.schedule().Status.Conditions, v1alpha1.ConditionReady)
	if c == nil {
		return "", ""
	}
	return c.Reason, c.Message
}

// nightly is a Schedule of every minute for the Session demo.
func nightly(changes ...func(*v1alpha1.ScheduleSpec)) *v1alpha1.Schedule {
	s := &v1alpha1.Schedule{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "nightly", UID: "s1", Generation: 1, CreationTimestamp: metav1.NewTime(began),
		},
		Spec: v1alpha1.ScheduleSpec{
			Schedule: "* * * * *", SessionRef: &v1alpha1.LocalReference{Name: "demo"},
			Turn: v1alpha1.ScheduledTurn{Input: "Report.", Delivery: v1alpha1.DeliveryQueue},
		},
	}
	for _, change := range changes {
		change(&s.Spec)
	}
	return s
}

func perTick(spec *v1alpha1.ScheduleSpec) {
	spec.SessionRef = nil
	spec.SessionTemplate = &v1alpha1.SessionTemplate{HarnessRef: v1alpha1.LocalReference{Name: "base"}}
}

func policy(p v1alpha1.ConcurrencyPolicy) func(*v1alpha1.ScheduleSpec) {
	return func(spec *v1alpha1.ScheduleSpec) { spec.ConcurrencyPolicy = p }
}

func session() *v1alpha1.Session {
	return &v1alpha1.Session{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo", UID: "demo"}}
}
