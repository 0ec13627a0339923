package streaming

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/feed"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/live"
)

// plans are an Outputs that notes the Turns that it learns of, with their plans.
type plans map[types.UID]*v1alpha1.TurnPlan

func (p plans) Follow(journal.Session, func(feed.Output)) (end func()) { return func() {} }

func (p plans) Turn(_ types.UID, turn *v1alpha1.Turn) { p[turn.UID] = turn.Status.Plan }

// The calls of a Turn that was deleted while they ran are not followed any more: it has no finalizer, and no status
// shows their end.
func TestTheOutputOfADeletedTurnIsNotFollowed(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	informers, seen := &informertest.FakeInformers{Scheme: scheme}, plans{}
	hub := feed.NewHub(feed.Options{
		Log: journal.New(memory.New(), journal.Options{}), Bus: &live.Bus{}, Outputs: seen, Limits: feed.LimitsOf(8),
		Clock: time.Now,
	})
	if err := Wake(t.Context(), informers, hub); err != nil {
		t.Fatal(err)
	}
	s, err := hub.Subscribe(feed.Request{Session: journal.Session{Namespace: "ns", Name: "s", UID: "session"}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	turn := &v1alpha1.Turn{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "t", UID: "turn"}}
	turn.Status.SessionUID = "session"
	turn.Status.Plan = &v1alpha1.TurnPlan{Step: 2, Phase: v1alpha1.PlanPhaseAct}
	informer, err := informers.FakeInformerFor(t.Context(), turn)
	if err != nil {
		t.Fatal(err)
	}
	informer.Add(turn)
	if seen["turn"] == nil {
		t.Fatal("the plan of the Turn is not known")
	}
	informer.Delete(turn)
	if plan, known := seen["turn"]; !known || plan != nil {
		t.Error("the Turn that was deleted still has a plan")
	}
}
