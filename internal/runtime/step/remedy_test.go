package step

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/config"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
	"github.com/capstan-dev/capstan/internal/runtime/modelcall"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// conditionOf is the message of Succeeded=False of a Turn that failed so.
func conditionOf(t *testing.T, progress v1alpha1.TurnProgress) string {
	t.Helper()
	if progress.Error == nil {
		t.Fatal("the Turn did not fail")
	}
	status := v1alpha1.TurnStatus{TurnProgress: progress}
	turnstate.SetConditions(&status, 1, metav1.Now())
	return meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionSucceeded).Message
}

// TestEveryFailureOfAModelStatesWhatToDo: the condition names the objects to change.
func TestEveryFailureOfAModelStatesWhatToDo(t *testing.T) {
	const key = `key "token" of Secret "provider", used by Model "m"`
	status := func(status int, kind string) error { return provider.StatusError("Test", "m", status, 0, kind) }
	for name, test := range map[string]struct {
		err  error
		code v1alpha1.ErrorCode
		want []string
	}{
		"a refused key": {
			status(401, ""), v1alpha1.ErrorCodeProviderMisconfigured, []string{key, "Store a valid API key"},
		},
		"a key without rights": {status(403, ""), v1alpha1.ErrorCodeProviderMisconfigured, []string{key}},
		"a wrong address": {
			provider.RequestError(t.Context(), "Test", &egress.Error{Reason: egress.ReasonRefused, Text: "h has no address"}),
			v1alpha1.ErrorCodeProviderMisconfigured,
			[]string{"H has no address.", `baseURL of Model "m"`},
		},
		"a quota that is used": {
			status(429, provider.KindQuota), v1alpha1.ErrorCodeProviderQuotaExhausted,
			[]string{key, "Raise the provider's quota"},
		},
		"a limit": {
			provider.StatusError("Test", "m", 429, 2*time.Minute, ""), v1alpha1.ErrorCodeProviderRateLimited,
			[]string{`Model "m"`, "another Turn later"},
		},
		"an unknown model": {status(404, ""), v1alpha1.ErrorCodeModelUnavailable, []string{`model of Model "m"`, key}},
		"an outage": {
			&model.Error{Code: v1alpha1.ErrorCodeProviderUnavailable, Text: "out of order"},
			v1alpha1.ErrorCodeProviderUnavailable,
			[]string{`Model "m"`, "another Turn later"},
		},
		"a refused request": {
			provider.WithProblem(status(400, ""), "no such parameter"), v1alpha1.ErrorCodeProcessingError,
			[]string{"No such parameter.", `Model "m"`},
		},
		"a response too long": {
			provider.TooLong("Test", provider.MaxAnswer+1, 0, 0), v1alpha1.ErrorCodeProcessingError,
			[]string{"too long to be stored", `Model "m"`},
		},
		"a response of no sense":  {errors.New("boom"), v1alpha1.ErrorCodeProcessingError, []string{`Model "m"`}},
		"a conversation too long": {status(413, ""), v1alpha1.ErrorCodeRequestTooLarge, []string{"start a new session"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := named("m")
			m.Spec.SecretKeyRef = &v1alpha1.SecretKeyReference{Name: "provider", Key: "token"}
			failure := modelcall.Result{Model: m, Err: test.err}.Failure()
			progress := turnstate.Refused(failure, failure.Sentence(), metav1.NewMicroTime(started))
			message := conditionOf(t, progress)
			if progress.Error.Code != test.code {
				t.Errorf("the code is %s", progress.Error.Code)
			}
			for _, want := range test.want {
				if !strings.Contains(message, want) {
					t.Errorf("%q does not contain %q", message, want)
				}
			}
		})
	}
}

// TestALayerThatBlocksIsNamed: the condition of a Turn that its Harness or Agent has ended.
func TestALayerThatBlocksIsNamed(t *testing.T) {
	archived := v1alpha1.LifecycleArchived
	for name, test := range map[string]struct {
		resolved config.Resolved
		want     string
	}{
		"an archived Harness": {
			config.Resolved{HarnessName: "base", Harness: &v1alpha1.Harness{Spec: v1alpha1.HarnessSpec{Lifecycle: archived}}},
			`Set lifecycle of Harness "base" to Active`,
		},
		"a missing Harness": {config.Resolved{HarnessName: "base"}, `Create Harness "base"`},
		"an archived Agent": {
			config.Resolved{
				Harness: &v1alpha1.Harness{}, AgentName: "a", Agent: &v1alpha1.Agent{Spec: v1alpha1.AgentSpec{Lifecycle: archived}},
			},
			`Set lifecycle of Agent "a" to Active`,
		},
		"a missing Agent": {config.Resolved{Harness: &v1alpha1.Harness{}, AgentName: "a"}, `Create Agent "a"`},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			c := with()
			c.Blocker = test.resolved.Blocker()
			turn, _ := b.reason(newTurn("demo-1"), c)
			if message := conditionOf(t, turn.Progress); !strings.Contains(message, test.want) {
				t.Errorf("%q does not contain %q", message, test.want)
			}
		})
	}
}
