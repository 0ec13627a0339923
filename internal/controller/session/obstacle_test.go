package session

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/fieldindex"
	"github.com/capstan-dev/capstan/internal/controller/wake"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/invocation"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	journalmemory "github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/step"
)

// refusing is a store that accepts no entries while it refuses.
type refusing struct {
	journal.Store
	refuses bool
}

func (r *refusing) Create(ctx context.Context, s journal.Session, e *v1alpha1.JournalEntrySpec) error {
	if r.refuses {
		return errors.Join(journal.ErrRefused, errors.New("exceeded quota: few"))
	}
	return r.Store.Create(ctx, s, e)
}

// TestASessionReportsAJournalThatCannotBeAppendedTo expects no admission and no release on such a journal.
func TestASessionReportsAJournalThatCannotBeAppendedTo(t *testing.T) {
	for name, test := range map[string]struct {
		head    int64
		active  *v1alpha1.ActiveTurn
		queued  bool
		refuses bool
		reason  string
		pause   time.Duration
		after   string
	}{
		"a Turn is queued on a journal that lacks entries": {
			head: 7, queued: true, reason: v1alpha1.ReasonJournalDamaged, pause: 5 * time.Minute,
		},
		"a Turn was deleted on a journal that lacks entries": {
			head: 7, active: &v1alpha1.ActiveTurn{
				Name: "gone", UID: "gone",
			}, reason: v1alpha1.ReasonJournalDamaged, pause: 5 * time.Minute, after: "gone",
		},
		"a Turn was deleted on a journal that refuses entries": {
			active: &v1alpha1.ActiveTurn{
				Name: "gone", UID: "gone",
			}, refuses: true, reason: v1alpha1.ReasonJournalRefused, pause: 10 * time.Second, after: "gone",
		},
		"a Turn is queued on a new journal": {queued: true, reason: v1alpha1.ReasonReady, after: "demo-1"},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			meta := func(name string) metav1.ObjectMeta {
				return metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Generation: 1}
			}
			session := &v1alpha1.Session{ObjectMeta: meta("demo")}
			session.Spec.HarnessRef.Name = "base"
			session.Status.ActiveTurn, session.Status.Journal.Head = test.active, test.head
			harness := &v1alpha1.Harness{ObjectMeta: meta("base")}
			harness.Spec.ModelRef = &v1alpha1.LocalReference{Name: "m"}
			m := &v1alpha1.Model{ObjectMeta: meta("m")}
			m.Spec.Provider = v1alpha1.ModelProviderSimulated
			condition.SetReady(&m.Status.Conditions, 1, metav1.Now(), v1alpha1.ReasonReady, "")
			queued := &v1alpha1.Turn{ObjectMeta: meta("demo-1")}
			queued.Spec.SessionRef.Name = "demo"
			objects := []client.Object{session, harness, m}
			if test.queued {
				objects = append(objects, queued)
			}
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(session, queued, m).
				WithIndex(
					queued, fieldindex.OpenTurn,
					func(o client.Object) []string { return []string{o.(*v1alpha1.Turn).Spec.SessionRef.Name} },
				).
				Build()
			turns := fairshare.NewTurns(fairshare.TurnsOptions{Active: 5, BegunPerNamespace: 5})
			if test.active != nil {
				turns.Adopt(fairshare.Begun{Session: session.UID, Namespace: "ns"})
			}
			now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
			clock := func() time.Time { return now }
			store := &refusing{journalmemory.New(), test.refuses}
			r := &Reconciler{
				Activities: newExecutor(),
				Client:     c, Live: c, Clock: clock, Turns: turns, Wakes: &wake.Source{}, TurnWakes: &wake.Source{},
				Steps: &step.Runner{
					Runner: invocation.Runner{
						Log:   journal.New(store, journal.Options{}),
						Clock: time.Now,
					},
				},
			}
			var result ctrl.Result
			var versions []string
			for range 3 {
				now = now.Add(10 * time.Minute)
				var err error
				if result, err = r.Reconcile(
					t.Context(),
					ctrl.Request{NamespacedName: client.ObjectKeyFromObject(session)},
				); err != nil {
					t.Fatal(err)
				}
				if result.RequeueAfter < test.pause || (test.pause == 0) != (result.RequeueAfter == 0) {
					t.Errorf("the next pass comes after %v, want %v", result.RequeueAfter, test.pause)
				}
				seen := &v1alpha1.Session{}
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(session), seen); err != nil {
					t.Fatal(err)
				}
				versions = append(versions, seen.ResourceVersion)
			}
			if versions[0] != versions[2] {
				t.Errorf("passes that find the same write it again: versions %v", versions)
			}
			found := &v1alpha1.Session{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(session), found); err != nil {
				t.Fatal(err)
			}
			ready := apimeta.FindStatusCondition(found.Status.Conditions, v1alpha1.ConditionReady)
			if ready == nil || ready.Reason != test.reason || strings.Contains(ready.Message, "\n") {
				t.Errorf("Ready is %+v, want %s", ready, test.reason)
			}
			active := ""
			if found.Status.ActiveTurn != nil {
				active = found.Status.ActiveTurn.Name
			}
			if active != test.after {
				t.Errorf("the active Turn is %q, want %q", active, test.after)
			}
			if (active == "" || test.pause > 0) && turns.Active() != 0 {
				t.Error("the Session holds a place")
			}
		})
	}
}
