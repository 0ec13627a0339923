package step

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
	"github.com/capstan-dev/capstan/internal/testing/site"
)

// keyed is a Config whose Model is at the site and needs a key.
func keyed(s *site.Site) turnstate.Config {
	c := with()
	c.Model.Spec.BaseURL = s.URL + "/v1"
	c.Model.Spec.SecretKeyRef = &v1alpha1.SecretKeyReference{Name: "api", Key: "key"}
	return c
}

// reads lets the process read one Secret; err is what it gets instead.
func (b *bench) reads(secret *corev1.Secret, err error) *int {
	asked := new(int)
	b.Secrets = func(_ context.Context, namespace, name string) (*corev1.Secret, error) {
		*asked++
		if namespace != "ns" || name != "api" {
			b.t.Errorf("Secret %s/%s was asked for", namespace, name)
		}
		return secret, err
	}
	return asked
}

// TestWithoutAKeyTheTurnWaits: and neither the provider nor the journal learns of it.
func TestWithoutAKeyTheTurnWaits(t *testing.T) {
	s := site.New(t, site.Fine)
	b := newBench(t).reaching(s)
	c := keyed(s)
	closed, err := b.Reason(t.Context(), newTurn("demo-1"), c)
	var keyless *turnstate.MissingKey
	if !errors.As(err, &keyless) || closed != nil {
		t.Fatalf("closed %+v, error %v, want to wait", closed, err)
	}
	if keyless.Model != "m" || keyless.Reason != v1alpha1.ReasonSecretMissing ||
		!strings.HasPrefix(keyless.Problem, `Secret "api" does not exist.`) {
		t.Errorf("waits for %+v", keyless)
	}
	if len(b.transcript()) != 0 || s.Requests() != 0 {
		t.Errorf("the journal has %d messages, the provider was called %d times", len(b.transcript()), s.Requests())
	}

	// The condition of the Model has the same reason, and makes the Turn wait before anything is tried.
	c.Model.Namespace = "ns"
	reason, message := model.Readiness(b.CheckKey(t.Context(), c.Model))
	condition.SetReady(&c.Model.Status.Conditions, 1, metav1.NewTime(started), reason, message)
	if known := turnstate.FindMissingKey(c); known == nil || *known != *keyless {
		t.Errorf("by the condition the Turn waits for %+v, by the call for %+v", known, keyless)
	}
	var p v1alpha1.TurnProgress
	keyless.Describe(&p)
	if !keyless.Described(&p) || !turnstate.WaitsForReference(&p) || p.WaitsFor[0].Reason != keyless.Reason {
		t.Errorf("the status is %+v", p)
	}
	turnstate.Resume(&p)
	if turnstate.WaitsForReference(&p) || p.Phase != v1alpha1.TurnPhaseReason || len(p.WaitsFor) != 0 {
		t.Errorf("the status of a Turn that goes on is %+v", p)
	}
}

func TestAFallbackAnswersForAModelWithoutAKeyAndHoldsNothingUpWithoutItsOwn(t *testing.T) {
	s := site.New(t, site.Fine)
	other := func() *v1alpha1.Model {
		m := with().Model
		m.Name = "other"
		return m
	}
	missing := site.NotFound("api")
	t.Run("the first has none", func(t *testing.T) {
		b := newBench(t).reaching(s)
		b.reads(nil, missing)
		c := keyed(s)
		c.Fallbacks = []*v1alpha1.Model{other()}
		if turn, _ := b.reason(newTurn("demo-1"), c); turn.Progress.Error != nil || turn.Progress.Model != "other" {
			t.Errorf("error %+v, answered by %q", turn.Progress.Error, turn.Progress.Model)
		}
	})
	t.Run("the fallback has none", func(t *testing.T) {
		b := newBench(t).reaching(s)
		b.reads(nil, missing)
		b.failing(provider.StatusError("Test", "other", 401, 0, ""))
		c := keyed(s)
		c.Model, c.Fallbacks = other(), []*v1alpha1.Model{c.Model}
		turn, closed := b.reason(newTurn("demo-1"), c)
		if e := turn.Progress.Error; e == nil || e.Fields["model_id"] == "m" || turn.Progress.Model != "" {
			t.Errorf("error %+v, want that of the first Model; answered by %q", e, turn.Progress.Model)
		}
		if all := generations(t, closed); len(all) != 2 {
			t.Errorf("the journal reports %+v", all)
		}
	})
	t.Run("none has one", func(t *testing.T) {
		b := newBench(t).reaching(s)
		b.reads(nil, missing)
		c := keyed(s)
		fallback := c.Model.DeepCopy()
		fallback.Name = "second"
		c.Fallbacks = []*v1alpha1.Model{fallback}
		var keyless *turnstate.MissingKey
		if _, err := b.Reason(t.Context(), newTurn("demo-1"), c); !errors.As(err, &keyless) || keyless.Model != "m" {
			t.Errorf("got %v, want to wait for the key of the first", err)
		}
	})
}

func TestTheStatusNamesTheModelThatAnsweredAndTheOneThatWasNotFound(t *testing.T) {
	b := newBench(t)
	c := with()
	c.ModelNotFound = "gone"
	turn, _ := b.reason(newTurn("demo-1"), c)
	if turn.Progress.Model != "m" || turn.Progress.ModelNotFound != "gone" {
		t.Errorf("model %q, modelNotFound %q", turn.Progress.Model, turn.Progress.ModelNotFound)
	}
}

func TestWhenTheSecretCannotBeReadNowNothingIsDecided(t *testing.T) {
	b := newBench(t).reaching(site.New(t, site.Fine))
	b.reads(nil, apierrors.NewTooManyRequestsError("later"))
	if closed, err := b.Reason(
		t.Context(),
		newTurn("demo-1"),
		keyed(site.New(t, site.Fine)),
	); err == nil || closed != nil ||
		!strings.Contains(err.Error(), "Secret api") {
		t.Errorf("closed %+v, error %v", closed, err)
	}
	if len(b.transcript()) != 0 || len(b.asked) != 0 {
		t.Errorf("asked %d times, the log has %d messages", len(b.asked), len(b.transcript()))
	}
}
