package turn

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/notice"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// locked is an HTTP tool that needs a Secret.
func (w *world) locked(name string, class v1alpha1.SideEffect) *v1alpha1.Tool {
	definition := w.site(name, class)
	definition.Spec.HTTP.Headers = []v1alpha1.HTTPHeader{
		{Name: "X-Key", SecretKeyRef: &v1alpha1.SecretKeyReference{Name: "api", Key: "key"}},
	}
	return definition
}

// guard gives a manager the Secret of the vault.
func (v *vault) guard(m *manager) { m.Steps.Secrets = v.read }

// events keeps the texts of the recorded Events.
type events struct{ recorded []string }

func (e *events) Eventf(_, _ runtime.Object, _, reason, _, _ string, args ...any) {
	e.recorded = append(e.recorded, reason+": "+args[0].(string))
}

func (w *world) waits() bool { return w.turn().Status.Phase == v1alpha1.TurnPhaseWaiting }

func TestACallWhoseSecretIsMissingWaitsAndContinues(t *testing.T) {
	for _, class := range []v1alpha1.SideEffect{
		v1alpha1.SideEffectAtMostOnce, v1alpha1.SideEffectIdempotent, v1alpha1.SideEffectPure,
	} {
		t.Run(string(class), func(t *testing.T) {
			w := newWorld(t)
			w.begin(w.locked("ask", class))
			m, v, recorded := w.manager(0), &vault{}, &events{}
			v.guard(m)
			m.Notices = notice.NewRecorder(recorded, w.present)
			m.until("the Turn waits", w.waits)

			const command = "kubectl create secret generic api --namespace ns --from-literal=key=YOUR_VALUE"
			want := `Tool "ask" cannot be called (SecretMissing). Secret "api" does not exist. Create it: ` + command
			if succeeded := w.succeeded(); succeeded.Reason != v1alpha1.ReasonSecretMissing || succeeded.Message != want {
				t.Errorf("Succeeded is %+v", succeeded)
			}
			turn := w.turn()
			if waits := turn.Status.WaitsFor; len(waits) != 1 || waits[0].Type != v1alpha1.WaitTypeReference ||
				waits[0].Message != want {
				t.Errorf("waitsFor is %+v", waits)
			}
			if call := turn.Status.ToolCalls[0]; call.State != v1alpha1.ToolCallStatePending ||
				call.Reason != v1alpha1.ReasonSecretMissing {
				t.Errorf("the call is %+v", call)
			}
			if held := m.Turns.Active(); held != 0 {
				t.Errorf("%d places are held", held)
			}
			if len(recorded.recorded) != 0 {
				t.Errorf("an Event was recorded at once: %q", recorded.recorded)
			}

			// An hour costs few reads, no write and no place.
			reads, version := v.reads, turn.ResourceVersion
			for end := w.present().Add(time.Hour); w.present().Before(end); {
				result, err := m.pass()
				if err != nil || result.RequeueAfter == 0 {
					t.Fatalf("a pass gives %+v, %v", result, err)
				}
				w.sleep(result.RequeueAfter)
			}
			if more := v.reads - reads; more < 10 || more > 25 || w.turn().ResourceVersion != version || m.Turns.Active() != 0 {
				t.Errorf(
					"%d further reads, %d places, the Turn was written: %t",
					more,
					m.Turns.Active(),
					w.turn().ResourceVersion != version,
				)
			}
			if len(recorded.recorded) == 0 || !strings.Contains(recorded.recorded[0], command) || len(recorded.recorded) > 6 {
				t.Errorf("the Events are %q", recorded.recorded)
			}

			v.there = true
			w.sleep(lastKeyRetry)
			m.until("the end", w.finished)
			turn = w.turn()
			if turn.Status.Phase != v1alpha1.TurnPhaseSucceeded || len(turn.Status.WaitsFor) != 0 || w.sent["ask"] != 1 {
				t.Errorf("phase %s, waitsFor %+v, %d requests", turn.Status.Phase, turn.Status.WaitsFor, w.sent["ask"])
			}
		})
	}
}

func TestAnotherProcessLooksBeforeItStartsACallThatWaits(t *testing.T) {
	w := newWorld(t)
	w.begin(w.locked("ask", v1alpha1.SideEffectAtMostOnce))
	first, v := w.manager(0), &vault{}
	v.guard(first)
	first.until("the Turn waits", w.waits)
	second, version := w.manager(0), w.turn().ResourceVersion
	v.guard(second)
	if result, err := second.pass(); err != nil || result.RequeueAfter == 0 || w.turn().ResourceVersion != version ||
		second.Turns.Active() != 0 {
		t.Errorf("the first pass gives %+v, %v; %d places", result, err, second.Turns.Active())
	}
	v.there = true
	w.sleep(lastKeyRetry)
	second.until("the end", w.finished)
	if w.sent["ask"] != 1 || w.turn().Status.Phase != v1alpha1.TurnPhaseSucceeded {
		t.Errorf("%d requests, phase %s", w.sent["ask"], w.turn().Status.Phase)
	}
}

func TestACallThatWaitsForASecretHoldsUpNoOther(t *testing.T) {
	w := newWorld(t)
	w.begin(
		w.locked("ask", v1alpha1.SideEffectPure),
		builder.JobTool("work", v1alpha1.SideEffectPure).Obj(),
		builder.ClientTool("person").Obj(),
	)
	m, v := w.manager(0), &vault{}
	v.guard(m)
	m.until(
		"all but the Secret and the client is there",
		func() bool { return w.turn().Status.Phase == v1alpha1.TurnPhaseWaitingForToolResults },
	)
	turn := w.turn()
	if turn.Status.ToolCalls[1].State != v1alpha1.ToolCallStateSucceeded || len(turn.Status.WaitsFor) != 1 ||
		m.Turns.Active() != 0 {
		t.Errorf("calls %+v, waitsFor %+v, %d places", turn.Status.ToolCalls, turn.Status.WaitsFor, m.Turns.Active())
	}
}

func TestATurnThatWaitsForTheSecretOfAToolEnds(t *testing.T) {
	for name, end := range map[string]func(*world){
		"deadline": func(w *world) { w.sleep(2 * time.Hour) },
		"cancel":   (*world).cancel,
		"a Tool that is changed": func(w *world) {
			definition := w.locked("ask", v1alpha1.SideEffectAtMostOnce)
			definition.Namespace = testNamespace
			w.change(definition, func() { definition.Spec.HTTP.Headers, definition.Generation = nil, definition.Generation+1 })
			w.sleep(lastKeyRetry)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.begin(w.locked("ask", v1alpha1.SideEffectAtMostOnce))
			turn := w.turn()
			w.change(turn, func() { seconds := int64(3600); turn.Spec.ActiveDeadlineSeconds = &seconds })
			m, v := w.manager(0), &vault{}
			v.guard(m)
			m.until("the Turn waits", w.waits)
			end(w)
			m.until("the end", w.finished)
			if status := w.turn().Status; len(status.WaitsFor) != 0 ||
				status.ToolCalls[0].State != v1alpha1.ToolCallStateNotExecuted ||
				w.sent["ask"] != 0 {
				t.Errorf("waitsFor %+v, calls %+v, %d requests", status.WaitsFor, status.ToolCalls, w.sent["ask"])
			}
		})
	}
}

func TestASecretThatCannotBeReadNowFailsThePassAndIsLookedForAgain(t *testing.T) {
	w := newWorld(t)
	w.begin(w.locked("ask", v1alpha1.SideEffectPure))
	m, v := w.manager(0), &vault{}
	v.guard(m)
	m.until("the Turn waits", w.waits)
	m.Steps.Secrets = func(context.Context, string, string) (*corev1.Secret, error) {
		return nil, apierrors.NewServerTimeout(schema.GroupResource{Resource: "secrets"}, "get", 1)
	}
	w.sleep(lastKeyRetry)
	if _, err := m.pass(); err == nil || !strings.Contains(err.Error(), "reading Secret api") {
		t.Errorf("the pass gives the error %v", err)
	}
	v.there = true
	v.guard(m)
	m.until("the end", w.finished)
}
