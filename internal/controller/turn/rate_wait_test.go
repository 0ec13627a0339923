package turn

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/ratelimit"
)

// metered gives the Model of a world a limit of one call per minute.
type metered struct {
	w      *world
	limits *ratelimit.Models
	source ratelimit.Source
}

// meter puts the calls of a process under a limit of their Model.
func (w *world) meter(m *manager) *metered {
	w.t.Helper()
	w.changeModel(func(model *v1alpha1.Model) {
		model.Spec.Limits = &v1alpha1.ModelLimits{RequestsPerMinute: ptr.To[int32](1)}
	})
	l := &metered{w: w, limits: ratelimit.NewModels(w.present)}
	l.source = ratelimit.Source{Namespace: testNamespace, Provider: "Test", Model: "m"}
	m.Steps.Limits = l.limits
	m.Steps.LimitedModels = func(context.Context, string) ([]v1alpha1.Model, error) { return nil, nil }
	return l
}

// behindKey is the source of the Model once it needs a key.
func (l *metered) behindKey() {
	l.source = ratelimit.Source{
		Namespace: testNamespace, Provider: "Test", Endpoint: "https://models.example.org", Secret: "api", Key: "key",
	}
}

// reserve reserves room for a call of another Turn; it returns nil for none.
func (l *metered) reserve(turn types.UID) *ratelimit.Reservation {
	room, _ := l.limits.Reserve(l.source, ratelimit.Limit{Requests: 1}, turn, 0)
	return room
}

// use makes a call of another Turn, which must have room.
func (l *metered) use(turn types.UID) {
	l.w.t.Helper()
	room := l.reserve(turn)
	if room == nil {
		l.w.t.Fatalf("Turn %s has no room", turn)
	}
	room.Settle(1)
}

func (w *world) waitsForRate() bool {
	waits := w.turn().Status.WaitsFor
	return len(waits) == 1 && waits[0].Type == v1alpha1.WaitTypeRateLimit
}

func (w *world) hasSucceeded() bool { return w.turn().Status.Phase == v1alpha1.TurnPhaseSucceeded }

// A Turn that something else holds back gives up its place in the line of a rate limit, and the room that it was
// promised there: others call meanwhile.
func TestATurnThatIsHeldBackLeavesTheLineOfARateLimit(t *testing.T) {
	for name, promised := range map[string]bool{"first in line": false, "with room": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).begin()
			m := w.manager(0)
			secrets := w.lockUp(m)
			secrets.there = true
			l := w.meter(m)
			l.behindKey()
			running := l.reserve("other")
			m.until("the Turn waits for room", w.waitsForRate)
			if promised {
				w.sleep(2 * time.Minute)
				running.Settle(1)
			}
			w.judge(v1alpha1.ReasonSecretMissing, "Create it.")
			m.until("the Turn waits for its key", func() bool {
				waits := w.turn().Status.WaitsFor
				return len(waits) == 1 && waits[0].Type == v1alpha1.WaitTypeReference
			})
			running.Settle(1)
			w.sleep(2 * time.Minute)
			l.use("another")
			w.judge(v1alpha1.ReasonReady, "The Model can be called.")
			m.until("the Turn has succeeded", w.hasSucceeded)
			if len(w.asked) != 1 {
				t.Errorf("the model was called %d times", len(w.asked))
			}
		})
	}
}

// A Turn that waits for room within a rate limit keeps that of its Budget: it needs both at once.
func TestATurnInTheLineOfARateLimitKeepsTheRoomOfItsBudget(t *testing.T) {
	w := newWorld(t).begin()
	m := w.manager(0)
	b, l := w.limit(m), w.meter(m)
	charge, err := b.reserve("other")
	if err != nil {
		t.Fatal(err)
	}
	m.until("the Turn waits for its Budget", w.waitsForBudget)
	l.use("other")
	b.end(charge)
	m.until("the Turn waits for room", w.waitsForRate)
	if _, err := m.pass(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.reserve("another"); err == nil {
		t.Error("another call has the room of the Budget")
	}
	m.until("the Turn has succeeded", w.hasSucceeded)
}

// A Turn that has waited for a slot returns the room of its Budget when a later pass ends before it asks for one.
func TestATurnThatNoLongerWaitsForASlotReturnsItsRoom(t *testing.T) {
	w := newWorld(t)
	broken := false
	w.hooks.Get = func(
		ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption,
	) error {
		if _, session := o.(*v1alpha1.Session); session && broken {
			return errors.New("no API server")
		}
		return c.Get(ctx, key, o, options...)
	}
	w.begin()
	m := w.manager(0)
	b := w.limit(m)
	charge, err := b.reserve("other")
	if err != nil {
		t.Fatal(err)
	}
	m.until("the Turn waits for its Budget", w.waitsForBudget)
	for _, session := range []types.UID{"1", "2", "3", "4", "5", "6", "7", "8"} {
		m.Turns.Adopt(fairshare.Begun{Session: session, Namespace: "other"})
	}
	b.end(charge)
	if _, err := m.pass(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.reserve("another"); err == nil {
		t.Fatal("a Turn that waits for a slot keeps no room")
	}
	broken = true
	if _, err := m.pass(); err == nil {
		t.Fatal("the Session was read")
	}
	if charge, err = b.reserve("another"); err != nil {
		t.Fatalf("the room is kept: %v", err)
	}
	broken = false
	b.end(charge)
	m.Turns.End("1")
	m.until("the Turn has succeeded", w.hasSucceeded)
}

// A call that finds no key after a wait for a rate limit begins anew: its first Model may have its key by then,
// although it had none before the wait.
func TestACallThatFindsNoKeyAfterARateLimitBeginsAnew(t *testing.T) {
	w := newWorld(t).begin()
	w.spareModel()
	spare := &v1alpha1.Model{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "spare"}}
	w.change(spare, func() {
		spare.Spec.BaseURL, spare.Spec.SecretKeyRef.Name = "https://spare.example.org", "other"
		spare.Spec.Limits = &v1alpha1.ModelLimits{RequestsPerMinute: ptr.To[int32](1)}
	})
	m := w.manager(0)
	l := w.meter(m)
	w.lockUp(m)
	has := map[string]bool{"other": true}
	m.Steps.Secrets = func(_ context.Context, _, name string) (*corev1.Secret, error) {
		if !has[name] {
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
		}
		return &corev1.Secret{Data: map[string][]byte{"key": []byte("sk-1")}}, nil
	}
	l.source = ratelimit.Source{
		Namespace: testNamespace, Provider: "Test", Endpoint: spare.Spec.BaseURL, Secret: "other", Key: "key",
	}
	l.use("other")
	m.until("the Turn waits for room of its fallback", w.waitsForRate)
	has["other"] = false
	m.until("the Turn waits for a key", func() bool {
		waits := w.turn().Status.WaitsFor
		return len(waits) == 1 && waits[0].Type == v1alpha1.WaitTypeReference && m.Activities.Len() == 0
	})
	has["api"] = true
	m.until("the Turn has succeeded", w.hasSucceeded)
	if got := w.turn().Status.Model; got != "m" {
		t.Errorf("Model %q has responded", got)
	}
}
