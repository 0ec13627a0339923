package turn

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// vault is the Secret that the tests' Model names: present or missing.
type vault struct {
	there bool
	reads int
	// reported has the Models whose calls have found no key.
	reported []types.NamespacedName
}

func (v *vault) read(_ context.Context, _, name string) (*corev1.Secret, error) {
	v.reads++
	if !v.there {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
	}
	return &corev1.Secret{Data: map[string][]byte{"key": []byte("sk-1")}}, nil
}

// lockUp makes the Model of the world need a key that is in a vault.
func (w *world) lockUp(m *manager) *vault {
	w.t.Helper()
	v := &vault{}
	m.Steps.Secrets, m.Steps.OnNoKey = v.read, func(key types.NamespacedName) { v.reported = append(v.reported, key) }
	w.changeModel(func(model *v1alpha1.Model) {
		model.Spec.BaseURL = "https://models.example.org"
		model.Spec.SecretKeyRef = &v1alpha1.SecretKeyReference{Name: "api", Key: "key"}
	})
	return v
}

func (w *world) changeModel(edit func(*v1alpha1.Model)) {
	w.t.Helper()
	model := &v1alpha1.Model{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "m"}}
	w.change(model, func() { edit(model) })
}

// judge sets the Ready condition of the Model.
func (w *world) judge(reason, message string) {
	w.changeModel(func(model *v1alpha1.Model) {
		condition.SetReady(&model.Status.Conditions, model.Generation, metav1.NewTime(w.present()), reason, message)
	})
}

// succeeded returns the condition Succeeded of the Turn.
func (w *world) succeeded() metav1.Condition {
	w.t.Helper()
	if c := meta.FindStatusCondition(w.turn().Status.Conditions, v1alpha1.ConditionSucceeded); c != nil {
		return *c
	}
	return metav1.Condition{}
}

func TestATurnWhoseKeyIsDeletedWaitsForItAndContinues(t *testing.T) {
	w := newWorld(t).begin(builder.JobTool("work", v1alpha1.SideEffectPure).Obj())
	m := w.manager(0)
	v := w.lockUp(m)
	v.there = true
	m.until("the calls of the first step", func() bool { return w.turn().Status.Phase == v1alpha1.TurnPhaseAct })
	v.there = false
	m.until("the Turn waits", func() bool { return w.turn().Status.Phase == v1alpha1.TurnPhaseWaiting })

	succeeded := w.succeeded()
	if succeeded.Status != metav1.ConditionUnknown || succeeded.Reason != v1alpha1.ReasonSecretMissing {
		t.Errorf("Succeeded is %+v", succeeded)
	}
	const command = "kubectl create secret generic api --namespace ns --from-literal=key=YOUR_API_KEY"
	if want := `Model "m" cannot be called (SecretMissing). Secret "api" does not exist. Create it: ` +
		command; succeeded.Message != want {
		t.Errorf("the Turn reports\n%s\nwant\n%s", succeeded.Message, want)
	}
	if waits := w.turn().Status.WaitsFor; len(waits) != 1 || waits[0].Type != v1alpha1.WaitTypeReference {
		t.Errorf("waitsFor is %+v", waits)
	}
	if len(w.asked) != 1 || len(v.reported) == 0 ||
		v.reported[0] != (types.NamespacedName{Namespace: testNamespace, Name: "m"}) {
		t.Errorf("the model was called %d times, missing keys were reported for %v", len(w.asked), v.reported)
	}

	// The Model's reconciler checks for the key, and the Turn costs nothing meanwhile.
	w.judge(v1alpha1.ReasonSecretMissing, `Secret "api" does not exist. Create it: `+command)
	reads, version := v.reads, w.turn().ResourceVersion
	for range 3 {
		w.sleep(time.Hour)
		if result, err := m.pass(); err != nil || result.RequeueAfter != 0 {
			t.Errorf("a pass gives %+v, %v, want to be woken by the Session", result, err)
		}
	}
	if v.reads != reads || w.turn().ResourceVersion != version {
		t.Errorf(
			"%d further reads of the Secret, the Turn was written: %t",
			v.reads-reads,
			w.turn().ResourceVersion != version,
		)
	}

	// The missing thing changes, and the Turn reports it.
	w.judge(v1alpha1.ReasonSecretKeyMissing, "No key in it.")
	m.until(
		"the Turn reports the new reason",
		func() bool { return w.succeeded().Reason == v1alpha1.ReasonSecretKeyMissing },
	)

	v.there = true
	w.judge(v1alpha1.ReasonReady, "The Model can be called.")
	m.until("the Turn has succeeded", func() bool { return w.turn().Status.Phase == v1alpha1.TurnPhaseSucceeded })
	if turn := w.turn(); len(turn.Status.WaitsFor) != 0 || turn.Status.Model != "m" || len(w.asked) != 2 {
		t.Errorf("waitsFor %+v, model %q, called %d times", turn.Status.WaitsFor, turn.Status.Model, len(w.asked))
	}
}

func TestAKeyThatIsBackBeforeItsModelHasMissedItIsFound(t *testing.T) {
	w := newWorld(t).begin()
	m := w.manager(0)
	v := w.lockUp(m)
	w.judge(v1alpha1.ReasonReady, "The Model can be called.")
	m.until("the Turn waits", func() bool { return w.turn().Status.Phase == v1alpha1.TurnPhaseWaiting })
	v.there = true
	m.until("the Turn has succeeded", func() bool { return w.turn().Status.Phase == v1alpha1.TurnPhaseSucceeded })
	if v.reads != 2 {
		t.Errorf("the Secret was read %d times, want 2", v.reads)
	}
}

func TestAnotherProcessContinuesATurnThatWaitsForAKey(t *testing.T) {
	w := newWorld(t).begin()
	first := w.manager(0)
	w.lockUp(first)
	first.until("the Turn waits", func() bool { return w.turn().Status.Phase == v1alpha1.TurnPhaseWaiting })
	second := w.manager(0)
	w.lockUp(second).there = true
	second.until("the Turn has succeeded", func() bool { return w.turn().Status.Phase == v1alpha1.TurnPhaseSucceeded })
}

func TestATurnThatWaitsForAKeyEndsWithItsDeadlineAndWhenItIsCancelled(t *testing.T) {
	for name, end := range map[string]struct {
		do     func(*world)
		reason string
	}{
		"deadline": {func(w *world) { w.sleep(2 * time.Hour) }, v1alpha1.ReasonDeadlineExceeded},
		"cancel":   {(*world).cancel, v1alpha1.ReasonCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).begin()
			turn := w.turn()
			w.change(turn, func() { turn.Spec.ActiveDeadlineSeconds = new(int64); *turn.Spec.ActiveDeadlineSeconds = 3600 })
			m := w.manager(0)
			v := w.lockUp(m)
			m.until("the Turn waits", func() bool { return w.turn().Status.Phase == v1alpha1.TurnPhaseWaiting })
			w.judge(v1alpha1.ReasonSecretMissing, "Create it.")
			end.do(w)
			m.until("the Turn has ended", func() bool { return w.succeeded().Status == metav1.ConditionFalse })
			if got := w.succeeded().Reason; got != end.reason || len(w.turn().Status.WaitsFor) != 0 || len(w.asked) != 0 ||
				v.reads != 1 {
				t.Errorf("reason %s, waitsFor %+v, %d calls, %d reads", got, w.turn().Status.WaitsFor, len(w.asked), v.reads)
			}
		})
	}
}

func TestAModelOfControlsThatDoesNotExistIsSkippedAndReported(t *testing.T) {
	w := newWorld(t).begin()
	turn := w.turn()
	w.change(
		turn,
		func() { turn.Spec.Controls = &v1alpha1.TurnControls{ModelRef: &v1alpha1.LocalReference{Name: "gone"}} },
	)
	m := w.manager(0)
	const ignored = `Model "gone" of controls.modelRef does not exist and was ignored.`
	m.until("the Turn has begun", func() bool { return w.turn().Status.Plan != nil })
	if got, want := w.succeeded().Message, "Model call 1 is in progress. "+ignored; got != want {
		t.Errorf("while it runs, the Turn reports %q, want %q", got, want)
	}
	m.until("the Turn has succeeded", func() bool { return w.turn().Status.Phase == v1alpha1.TurnPhaseSucceeded })
	if got, want := w.succeeded().Message, "The agent responded. "+ignored; got != want || w.turn().Status.Model != "m" {
		t.Errorf("the Turn reports %q, want %q; model %q", got, want, w.turn().Status.Model)
	}
}

func TestATurnWhoseModelIsGoneWaitsForIt(t *testing.T) {
	w := newWorld(t).begin(builder.JobTool("work", v1alpha1.SideEffectPure).Obj())
	m := w.manager(0)
	m.until("the calls of the first step", func() bool { return w.turn().Status.Phase == v1alpha1.TurnPhaseAct })
	model := &v1alpha1.Model{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "m"}}
	if err := w.client.Delete(t.Context(), model); err != nil {
		t.Fatal(err)
	}
	m.until("the Turn waits", func() bool { return w.turn().Status.Phase == v1alpha1.TurnPhaseWaiting || w.finished() })
	succeeded, asked := w.succeeded(), len(w.asked)
	if succeeded.Reason != v1alpha1.ReasonModelNotFound ||
		!strings.HasPrefix(succeeded.Message, "No Model can be called (ModelNotFound). ") ||
		m.Turns.Active() != 0 {
		t.Fatalf("Succeeded is %+v, %d places are held", succeeded, m.Turns.Active())
	}
	w.create(&v1alpha1.Model{
		ObjectMeta: metav1.ObjectMeta{Name: "m", Annotations: map[string]string{v1alpha1.AnnotationDefaultModel: "true"}},
		Spec:       v1alpha1.ModelSpec{Provider: "Test"},
	})
	m.until("the Turn has succeeded", func() bool { return w.turn().Status.Phase == v1alpha1.TurnPhaseSucceeded })
	if waits := w.turn().Status.WaitsFor; len(waits) != 0 || len(w.asked) != asked+1 {
		t.Errorf("waitsFor %+v, called %d times", waits, len(w.asked)-asked)
	}
}
