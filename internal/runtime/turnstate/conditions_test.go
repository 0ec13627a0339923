package turnstate

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
)

var moment = metav1.NewMicroTime(time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC))

// shown is a condition without what does not matter here.
func shown(status *v1alpha1.TurnStatus, kind string) string {
	c := meta.FindStatusCondition(status.Conditions, kind)
	if c == nil {
		return "missing"
	}
	return string(c.Status) + " " + c.Reason
}

func TestConditionsFollowFromTheProgress(t *testing.T) {
	const running, finished, idle = "True Running", "False Finished", "False NotWaiting"
	waiting := []v1alpha1.ToolCall{
		{ID: "1-0", Name: "ask-ann", Executor: v1alpha1.ToolExecutorClient, State: v1alpha1.ToolCallStateWaiting},
		{ID: "1-1", Name: "ask-bob", Executor: v1alpha1.ToolExecutorClient, State: v1alpha1.ToolCallStateSucceeded},
	}
	for name, test := range map[string]struct {
		progress                                           v1alpha1.TurnProgress
		succeeded, finished, waiting, reconciling, stalled string
		message                                            string
	}{
		"a model call": {
			progress:  v1alpha1.TurnProgress{Phase: v1alpha1.TurnPhaseReason, Iteration: 3},
			succeeded: "Unknown Running", finished: "False Running", waiting: idle, reconciling: running,
			stalled: "False Running", message: "Model call 3",
		},
		"tool calls": {
			progress:  v1alpha1.TurnProgress{Phase: v1alpha1.TurnPhaseAct, Iteration: 3},
			succeeded: "Unknown Running", finished: "False Running", waiting: idle, reconciling: running,
			stalled: "False Running", message: "tool calls of model call 3",
		},
		"waiting": {
			progress:  v1alpha1.TurnProgress{Phase: v1alpha1.TurnPhaseWaitingForToolResults, Iteration: 1, ToolCalls: waiting},
			succeeded: "Unknown Running", finished: "False Running", waiting: "True ClientTools", reconciling: running,
			stalled: "False Running", message: "is waiting for tool results",
		},
		"an answer": {
			progress: v1alpha1.TurnProgress{
				Phase: v1alpha1.TurnPhaseSucceeded,
				Plan:  &v1alpha1.TurnPlan{Phase: v1alpha1.PlanPhaseComplete, StopReason: v1alpha1.StopReasonMaxTurnRequests},
			},
			succeeded: "True MaxTurnRequests", finished: "True Finished", waiting: idle, reconciling: finished,
			stalled: "False MaxTurnRequests", message: "maxIterations",
		},
		"a failure": {
			progress: v1alpha1.TurnProgress{
				Phase: v1alpha1.TurnPhaseFailed, Error: &v1alpha1.TurnError{Code: "provider_rate_limited", Message: "Later."},
			},
			succeeded: "False ProviderRateLimited", finished: "True Finished", waiting: idle, reconciling: finished,
			stalled: "True ProviderRateLimited", message: "Later.",
		},
		"a failure without an error": {
			progress:  v1alpha1.TurnProgress{Phase: v1alpha1.TurnPhaseFailed},
			succeeded: "False Failed", finished: "True Finished", waiting: idle, reconciling: finished, stalled: "True Failed",
			message: "failed",
		},
		"cancelled": {
			progress: v1alpha1.TurnProgress{
				Phase: v1alpha1.TurnPhaseCancelled, Error: &v1alpha1.TurnError{Code: "cancelled", Message: "It was cancelled."},
			},
			succeeded: "False Cancelled", finished: "True Finished", waiting: idle, reconciling: finished,
			stalled: "True Cancelled", message: "It was cancelled.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var status v1alpha1.TurnStatus
			Apply(&status, 1, test.progress, moment)
			for kind, want := range map[string]string{
				v1alpha1.ConditionSucceeded: test.succeeded, v1alpha1.ConditionFinished: test.finished,
				v1alpha1.ConditionReconciling: test.reconciling,
				v1alpha1.ConditionStalled:     test.stalled, v1alpha1.ConditionWaitingForToolResults: test.waiting,
			} {
				if got := shown(&status, kind); got != want {
					t.Errorf("%s is %q, want %q", kind, got, want)
				}
			}
			if message := meta.FindStatusCondition(
				status.Conditions,
				v1alpha1.ConditionSucceeded,
			).Message; !strings.Contains(
				message,
				test.message,
			) {
				t.Errorf("message %q, want %q in it", message, test.message)
			}
		})
	}
}

func TestWaitingNamesTheCallsThatAreMissingAndNoOthers(t *testing.T) {
	var status v1alpha1.TurnStatus
	Apply(&status, 1, v1alpha1.TurnProgress{Phase: v1alpha1.TurnPhaseWaitingForToolResults, ToolCalls: []v1alpha1.ToolCall{
		{
			ID:    "2-0",
			Name:  "a",
			State: v1alpha1.ToolCallStateSucceeded,
		},
		{ID: "2-1", Name: "b", State: v1alpha1.ToolCallStateWaiting},
		{ID: "2-2", Name: "c", State: v1alpha1.ToolCallStateWaiting},
	}}, moment)
	want := "Create a ToolResult for each of: 2-1 (b), 2-2 (c)."
	if got := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionWaitingForToolResults).Message; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
}

func TestProjectingIsPure(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		before := v1alpha1.TurnStatus{}
		Apply(&before, 1, someProgress(random), moment)
		progress := someProgress(random)
		kept := progress.DeepCopy()
		once, twice := before.DeepCopy(), before.DeepCopy()
		Apply(once, 1, progress, moment)
		Apply(twice, 1, progress, moment)
		Apply(twice, 1, progress, metav1.NewMicroTime(moment.Add(time.Hour)))
		if !reflect.DeepEqual(once, twice) {
			t.Fatalf("projecting the same entry again changed the status:\n%+v\n%+v", once, twice)
		}
		if !reflect.DeepEqual(&progress, kept) {
			t.Fatalf("projecting changed the entry:\n%+v\n%+v", progress, kept)
		}
		for _, c := range once.Conditions {
			if !c.LastTransitionTime.Time.Equal(moment.Truncate(time.Second)) {
				t.Fatalf("condition %s changed at %s, which is not the time of the entry", c.Type, c.LastTransitionTime)
			}
		}
		if len(once.ToolCalls) > 0 {
			once.ToolCalls[0].State = "changed"
			if progress.ToolCalls[0].State == "changed" {
				t.Fatal("status and entry share the calls")
			}
		}
	}
}

var allPhases = []v1alpha1.TurnPhase{
	v1alpha1.TurnPhaseQueued,
	v1alpha1.TurnPhaseReason,
	v1alpha1.TurnPhaseAct,
	v1alpha1.TurnPhaseWaitingForToolResults,
	v1alpha1.TurnPhaseSucceeded,
	v1alpha1.TurnPhaseFailed,
	v1alpha1.TurnPhaseCancelled,
}

func someProgress(random *rand.Rand) v1alpha1.TurnProgress {
	p := v1alpha1.TurnProgress{
		Phase:     allPhases[random.IntN(len(allPhases))],
		Iteration: random.Int32N(5),
		Plan:      &v1alpha1.TurnPlan{StopReason: v1alpha1.StopReasonEndTurn},
	}
	if random.IntN(2) == 0 {
		p.Error = &v1alpha1.TurnError{
			Code:    []v1alpha1.ErrorCode{"cancelled", "journal_full", "", "_"}[random.IntN(4)],
			Message: "m",
		}
	}
	for i := range random.IntN(3) {
		p.ToolCalls = append(
			p.ToolCalls,
			v1alpha1.ToolCall{
				ID:    "1-" + string(rune('0'+i)),
				Name:  "t",
				State: []v1alpha1.ToolCallState{v1alpha1.ToolCallStateWaiting, v1alpha1.ToolCallStateRunning}[random.IntN(2)],
			},
		)
	}
	return p
}

var reasonPattern = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

// checkRules checks the rules that kstatus and kubectl wait rely on.
func checkRules(t *testing.T, status *v1alpha1.TurnStatus) {
	t.Helper()
	is := func(kind string) metav1.ConditionStatus {
		c := meta.FindStatusCondition(status.Conditions, kind)
		if c == nil {
			t.Fatalf("phase %s: the condition %s is missing", status.Phase, kind)
		}
		if !reasonPattern.MatchString(c.Reason) || c.LastTransitionTime.IsZero() {
			t.Fatalf("phase %s: the condition %s is not valid: %+v", status.Phase, kind, c)
		}
		return c.Status
	}
	succeeded, finished := is(v1alpha1.ConditionSucceeded), is(v1alpha1.ConditionFinished)
	reconciling, stalled := is(v1alpha1.ConditionReconciling), is(v1alpha1.ConditionStalled)
	if reconciling == metav1.ConditionTrue && stalled == metav1.ConditionTrue {
		t.Fatalf("phase %s: Reconciling and Stalled are both True", status.Phase)
	}
	if (finished == metav1.ConditionTrue) != (succeeded != metav1.ConditionUnknown) {
		t.Fatalf("phase %s: Finished is %s and Succeeded is %s", status.Phase, finished, succeeded)
	}
	if (finished == metav1.ConditionTrue) == (reconciling == metav1.ConditionTrue) {
		t.Fatalf("phase %s: Finished is %s and Reconciling is %s", status.Phase, finished, reconciling)
	}
	if (stalled == metav1.ConditionTrue) != (succeeded == metav1.ConditionFalse) {
		t.Fatalf("phase %s: Stalled is %s and Succeeded is %s", status.Phase, stalled, succeeded)
	}
	if waits := is(
		v1alpha1.ConditionWaitingForToolResults,
	) == metav1.ConditionTrue; waits != (status.Phase == v1alpha1.TurnPhaseWaitingForToolResults) {
		t.Fatalf("phase %s: waiting is %v", status.Phase, waits)
	}
}

// codes are all codes with which a Turn can fail, and the empty one.
var codes = append(slices.Collect(maps.Keys(reasons)), "")

// Whatever transitions follow one another, the conditions keep the rules.
func FuzzConditionsKeepTheRules(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4}, uint8(0), "it ended")
	f.Add([]byte{6, 1}, uint8(15), "")
	f.Add([]byte{5, 3, 5}, uint8(14), "a")
	f.Fuzz(func(t *testing.T, phases []byte, which uint8, message string) {
		var status v1alpha1.TurnStatus
		code := codes[int(which)%len(codes)]
		for i, b := range phases {
			progress := v1alpha1.TurnProgress{
				Phase:     allPhases[int(b)%len(allPhases)],
				Iteration: int32(i),
				Plan:      &v1alpha1.TurnPlan{StopReason: v1alpha1.StopReasonEndTurn},
				Error:     &v1alpha1.TurnError{Code: code, Message: message},
			}
			Apply(&status, int64(i), progress, metav1.NewMicroTime(moment.Add(time.Duration(i)*time.Second)))
			checkRules(t, &status)
		}
	})
}

// TestEveryErrorCodeHasItsReason compares with the declarations in the API: a code without an entry would be Failed.
// Rules: ERR-01.
func TestEveryErrorCodeHasItsReason(t *testing.T) {
	source, err := os.ReadFile("../../../api/v1alpha1/errorcodes.go")
	if err != nil {
		t.Fatal(err)
	}
	declared := regexp.MustCompile(`ErrorCode(\w+) +ErrorCode = "(\w+)"`).FindAllStringSubmatch(string(source), -1)
	if len(declared) != len(reasons) {
		t.Errorf("%d codes are declared, %d have a reason", len(declared), len(reasons))
	}
	for _, code := range declared {
		if got := reasonOf(v1alpha1.ErrorCode(code[2])); got != code[1] {
			t.Errorf("the reason of %s is %s, want %s", code[2], got, code[1])
		}
	}
	for _, unknown := range []v1alpha1.ErrorCode{"", "_", "of_another_version"} {
		if got := reasonOf(unknown); got != v1alpha1.ReasonFailed {
			t.Errorf("the reason of %q is %s", unknown, got)
		}
	}
}

func TestTheConditionNamesTheResultsThatAreAwaited(t *testing.T) {
	ended := clientCall("1-9")
	ended.State = v1alpha1.ToolCallStateSucceeded
	ask := clientCall("1-1")
	ask.Name = "ask"
	for name, test := range map[string]struct {
		calls           []v1alpha1.ToolCall
		reason, message string
	}{
		"results": {
			[]v1alpha1.ToolCall{ask, ended}, v1alpha1.ReasonClientTools, "Create a ToolResult for each of: 1-1 (ask).",
		},
		"approvals": {
			[]v1alpha1.ToolCall{guardedCall("1-0"), ended, guardedCall("1-2")},
			v1alpha1.ReasonApproval,
			"Approve or reject with a ToolResult: 1-0 (pay), 1-2 (pay).",
		},
		"both": {
			[]v1alpha1.ToolCall{guardedCall("1-0"), ask},
			v1alpha1.ReasonClientTools,
			"Approve or reject with a ToolResult: 1-0 (pay). Create a ToolResult for each of: 1-1 (ask).",
		},
		"a destructive one": {
			[]v1alpha1.ToolCall{guardedCall("1-0"), destructiveCall("1-1")},
			v1alpha1.ReasonApproval,
			"Approve or reject with a ToolResult: 1-1 (pay, destructive), 1-0 (pay).",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var status v1alpha1.TurnStatus
			Apply(
				&status,
				1,
				v1alpha1.TurnProgress{Phase: v1alpha1.TurnPhaseWaitingForToolResults, ToolCalls: test.calls},
				moment,
			)
			c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionWaitingForToolResults)
			if c.Status != metav1.ConditionTrue || c.Reason != test.reason || c.Message != test.message {
				t.Errorf("the condition is %+v", c)
			}
		})
	}
}

// guardedCall waits for its approval until a minute after moment.
func guardedCall(id string) v1alpha1.ToolCall {
	by := metav1.NewTime(moment.Add(time.Minute))
	return v1alpha1.ToolCall{
		ID: id, Name: "pay", Executor: v1alpha1.ToolExecutorJob, Policy: v1alpha1.ToolPolicyRequiresApproval, ApproveBy: &by,
		State: v1alpha1.ToolCallStateWaiting, Reason: v1alpha1.ReasonApproval,
	}
}

// destructiveCall is a guardedCall of a Tool with hints.
func destructiveCall(id string) v1alpha1.ToolCall {
	call := guardedCall(id)
	call.Hints = []v1alpha1.ToolHint{v1alpha1.ToolHintOpenWorld, v1alpha1.ToolHintDestructive}
	return call
}

func clientCall(id string) v1alpha1.ToolCall {
	return v1alpha1.ToolCall{ID: id, Executor: v1alpha1.ToolExecutorClient, State: v1alpha1.ToolCallStateWaiting}
}

func TestTheEndStatesWhatToDo(t *testing.T) {
	failed := v1alpha1.TurnStatus{}
	failed.Phase = v1alpha1.TurnPhaseFailed
	failed.Error = &v1alpha1.TurnError{
		Code: "provider_misconfigured", Message: "The model provider is misconfigured.",
		Fields: map[string]string{"problem": `the Secret "key" has no key "a": add it`},
	}
	limit := v1alpha1.TurnStatus{}
	limit.Phase, limit.Plan = v1alpha1.TurnPhaseSucceeded, &v1alpha1.TurnPlan{
		StopReason: v1alpha1.StopReasonMaxTurnRequests,
	}
	for name, test := range map[string]struct {
		status v1alpha1.TurnStatus
		want   string
	}{
		"a failure":         {failed, `The model provider is misconfigured. The Secret "key" has no key "a": add it.`},
		"the limit reached": {limit, "reached maxIterations"},
	} {
		SetConditions(&test.status, 1, metav1.Now())
		succeeded := meta.FindStatusCondition(test.status.Conditions, v1alpha1.ConditionSucceeded)
		if !strings.Contains(succeeded.Message, test.want) {
			t.Errorf("%s: %q", name, succeeded.Message)
		}
	}
}

// TestConditionsHaveOneOrder: a status does not show which conditions were set first.
func TestConditionsHaveOneOrder(t *testing.T) {
	at := metav1.NewTime(time.Unix(1000, 0))
	reasons := plan.Begin(1, metav1.NewMicroTime(at.Time))
	kinds := func(before ...func(*v1alpha1.TurnStatus)) []string {
		status := &v1alpha1.TurnStatus{}
		for _, set := range before {
			set(status)
		}
		Apply(status, 1, reasons, metav1.NewMicroTime(at.Time))
		var found []string
		for _, c := range status.Conditions {
			found = append(found, c.Type)
		}
		return found
	}
	queued := func(status *v1alpha1.TurnStatus) {
		Queue(status, 1, at, v1alpha1.ReasonSessionNotFound, "The Session does not exist.")
	}
	stalled := func(status *v1alpha1.TurnStatus) {
		Stall(status, 1, at, v1alpha1.ReasonJournalRefused, "The journal takes no entry.")
	}
	want := kinds()
	for name, got := range map[string][]string{
		"queued": kinds(queued), "stalled": kinds(stalled), "queued, then stalled": kinds(queued, stalled),
	} {
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestAnEntryDoesNotHideThePodThatStatusHasRecorded(t *testing.T) {
	calls := func(pods ...string) []v1alpha1.ToolCall {
		each := make([]v1alpha1.ToolCall, len(pods))
		for i, pod := range pods {
			each[i] = v1alpha1.ToolCall{ID: fmt.Sprintf("1-%d", i), State: v1alpha1.ToolCallStateUnknown}
			if pod != "" {
				each[i].PodUID, each[i].PodName = types.UID(pod+"-uid"), pod
			}
		}
		return each
	}
	status := &v1alpha1.TurnStatus{TurnProgress: v1alpha1.TurnProgress{ToolCalls: calls("pay", "", "look")}}
	entry := v1alpha1.TurnProgress{
		Phase:     v1alpha1.TurnPhaseFailed,
		Plan:      &v1alpha1.TurnPlan{},
		ToolCalls: calls("", "", "see"),
	}
	Apply(status, 1, entry, moment)
	if want := calls("pay", "", "see"); !reflect.DeepEqual(status.ToolCalls, want) {
		t.Errorf("the calls are %v, want %v", status.ToolCalls, want)
	}
	if !reflect.DeepEqual(entry.ToolCalls, calls("", "", "see")) {
		t.Error("the calls of the entry have changed")
	}
	entry.ToolCalls = []v1alpha1.ToolCall{{ID: "3-0"}}
	Apply(status, 1, entry, moment)
	if status.ToolCalls[0].PodUID != "" {
		t.Errorf("a call of another step is shown in pod %s", status.ToolCalls[0].PodUID)
	}
}
