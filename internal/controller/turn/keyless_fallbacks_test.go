package turn

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
)

// spareModel gives the Model of the world a fallback that needs a key of the same vault.
func (w *world) spareModel() {
	w.t.Helper()
	w.changeModel(func(m *v1alpha1.Model) { m.Spec.Fallbacks = []v1alpha1.LocalReference{{Name: "spare"}} })
	spare := &v1alpha1.Model{ObjectMeta: metav1.ObjectMeta{Name: "spare"}, Spec: v1alpha1.ModelSpec{Provider: "Test"}}
	spare.Spec.BaseURL = "https://models.example.org"
	spare.Spec.SecretKeyRef = &v1alpha1.SecretKeyReference{Name: "api", Key: "key"}
	w.create(spare)
	w.judgeSpare(v1alpha1.ReasonReady)
}

func (w *world) judgeSpare(reason string) {
	w.t.Helper()
	spare := &v1alpha1.Model{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "spare"}}
	w.change(spare, func() {
		condition.SetReady(
			&spare.Status.Conditions,
			spare.Generation,
			metav1.NewTime(w.present()),
			reason,
			"It cannot be called.",
		)
	})
}

func TestATurnWhoseModelsAllLackTheirKeysDoesNotPoll(t *testing.T) {
	w := newWorld(t).begin()
	m := w.manager(0)
	v := w.lockUp(m)
	w.spareModel()
	m.until("the Turn waits", func() bool { return w.turn().Status.Phase == v1alpha1.TurnPhaseWaiting })
	w.judge(v1alpha1.ReasonSecretMissing, "Create it.")
	w.judgeSpare(v1alpha1.ReasonSecretMissing)
	m.until(
		"the Turn repeats the Model",
		func() bool { result, err := m.pass(); return err == nil && result.RequeueAfter == 0 },
	)
	reads, version := v.reads, w.turn().ResourceVersion
	for range 3 {
		w.sleep(time.Hour)
		if result, err := m.pass(); err != nil || result.RequeueAfter != 0 {
			t.Errorf("a pass gives %+v, %v, want to be woken by the Session", result, err)
		}
	}
	if v.reads != reads || w.turn().ResourceVersion != version {
		t.Errorf("%d further reads of Secrets, version %s after %s", v.reads-reads, w.turn().ResourceVersion, version)
	}
	v.there = true
	w.judgeSpare(v1alpha1.ReasonReady)
	m.until("the end", func() bool { return w.turn().Status.Phase == v1alpha1.TurnPhaseSucceeded })
}

// The pause after a call without a key is for a key that no change of a Model announces.
func TestAModelThatBecomesReadyEndsThePauseOfATurnThatHasFoundNoKey(t *testing.T) {
	for _, name := range []string{"the Model", "its fallback"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).begin()
			m := w.manager(0)
			v := w.lockUp(m)
			w.spareModel()
			w.judge(v1alpha1.ReasonReady, "The Model can be called.")
			if name == "the Model" {
				w.judge(v1alpha1.ReasonSecretMissing, "Create it.")
			}
			m.until("the Turn waits", func() bool { return w.turn().Status.Phase == v1alpha1.TurnPhaseWaiting })
			if result, err := m.pass(); err != nil || result.RequeueAfter == 0 || len(w.asked) != 0 {
				t.Fatalf("a pass gives %+v, %v after %d model calls, want a pause", result, err, len(w.asked))
			}
			v.there = true
			w.sleep(time.Second) // Conditions have the time in seconds.
			if name == "the Model" {
				w.judge(v1alpha1.ReasonReady, "The Model can be called.")
			} else {
				w.judgeSpare(v1alpha1.ReasonSecretMissing)
				w.judgeSpare(v1alpha1.ReasonReady)
			}
			before := w.present()
			for w.turn().Status.Phase != v1alpha1.TurnPhaseSucceeded {
				if _, err := m.pass(); err != nil {
					t.Fatal(err)
				}
				if m.Activities.Len() > 0 {
					<-m.woken
				}
				if w.present().Sub(before) > time.Second {
					t.Fatalf("phase %s: the Turn still pauses", w.turn().Status.Phase)
				}
			}
		})
	}
}
