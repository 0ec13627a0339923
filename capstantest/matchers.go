package capstantest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// HaveSucceeded matches a Turn that ended with a response. With Eventually it fails at once when the Turn failed.
func HaveSucceeded() gomegatypes.GomegaMatcher {
	return turnMatcher("to have succeeded", func(turn *v1alpha1.Turn) (bool, error) {
		c := find(turn, v1alpha1.ConditionSucceeded)
		if c != nil && c.Status == metav1.ConditionFalse {
			return false, gomega.StopTrying("the Turn has failed: " + describe(turn))
		}
		return c != nil && c.Status == metav1.ConditionTrue, nil
	})
}

// HaveFailed matches a Turn that ended without a response, with the given reason of its condition Succeeded, such as
// Cancelled.
func HaveFailed(reason string) gomegatypes.GomegaMatcher {
	return turnMatcher("to have failed with reason "+reason, func(turn *v1alpha1.Turn) (bool, error) {
		c := find(turn, v1alpha1.ConditionSucceeded)
		if c != nil && (c.Status == metav1.ConditionTrue || c.Status == metav1.ConditionFalse && c.Reason != reason) {
			return false, gomega.StopTrying("the Turn has ended otherwise: " + describe(turn))
		}
		return c != nil && c.Status == metav1.ConditionFalse && c.Reason == reason, nil
	})
}

// HaveSteered matches a Turn with delivery Steer whose message went into the Turn of this name. With Eventually it
// fails at once when the Turn ended otherwise.
func HaveSteered(into string) gomegatypes.GomegaMatcher {
	return turnMatcher("to have gone into Turn "+into, func(turn *v1alpha1.Turn) (bool, error) {
		steered := turn.Status.SteeredInto != nil && turn.Status.SteeredInto.Name == into
		if c := find(turn, v1alpha1.ConditionFinished); c != nil && c.Status == metav1.ConditionTrue && !steered {
			return false, gomega.StopTrying("the Turn has ended otherwise: " + describe(turn))
		}
		return steered, nil
	})
}

// WaitForTools matches a Turn that waits for ToolResults with the results of exactly the client tools of these names,
// in any order. It ignores waits for approvals and input, which WaitForApproval and WaitForInput match.
func WaitForTools(names ...string) gomegatypes.GomegaMatcher {
	want := slices.Sorted(slices.Values(names))
	return turnMatcher("to wait for "+strings.Join(want, ", "), func(turn *v1alpha1.Turn) (bool, error) {
		c := find(turn, v1alpha1.ConditionWaitingForToolResults)
		got, err := waitingTools(turn, waitForClient)
		return err == nil && c != nil && c.Status == metav1.ConditionTrue && slices.Equal(got, want), err
	})
}

// WaitForApproval matches a Turn in which exactly the calls of tools of these names, in any order, wait for approval.
// Other calls may be running meanwhile.
func WaitForApproval(names ...string) gomegatypes.GomegaMatcher {
	want := slices.Sorted(slices.Values(names))
	return turnMatcher("to wait for the approval of "+strings.Join(want, ", "), func(turn *v1alpha1.Turn) (bool, error) {
		got, err := waitingTools(turn, waitForApproval)
		return err == nil && slices.Equal(got, want), err
	})
}

// WaitForInput matches a Turn in which exactly the calls of tools of these names, in any order, wait for answers to the
// questions of their tools. Other calls may be running meanwhile.
func WaitForInput(names ...string) gomegatypes.GomegaMatcher {
	want := slices.Sorted(slices.Values(names))
	return turnMatcher("to wait for input for "+strings.Join(want, ", "), func(turn *v1alpha1.Turn) (bool, error) {
		got, err := waitingTools(turn, waitForInput)
		return err == nil && slices.Equal(got, want), err
	})
}

// waitingTools are the tools of the calls that wait in this way, sorted.
func waitingTools(turn *v1alpha1.Turn, kind waitKind) ([]string, error) {
	if f := find(turn, v1alpha1.ConditionFinished); f != nil && f.Status == metav1.ConditionTrue {
		return nil, gomega.StopTrying("the Turn has ended: " + describe(turn))
	}
	var names []string
	for _, call := range turn.Status.ToolCalls {
		if kindOf(call) == kind {
			names = append(names, call.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// HaveToolCall matches a Turn whose newest tool calls have one of the Tool of this name in the given state and with one
// of the given reasons, such as ToolCallStateFailed and ToolCallReasonOOMKilled. Without a reason, any reason matches.
// A step's calls are in the status until the model calls other tools.
func HaveToolCall(tool string, state v1alpha1.ToolCallState, reason ...string) gomegatypes.GomegaMatcher {
	what := fmt.Sprintf("to have a call of %s that is %s %s", tool, state, strings.Join(reason, " or "))
	return turnMatcher(strings.TrimSpace(what), func(turn *v1alpha1.Turn) (bool, error) {
		return slices.ContainsFunc(turn.Status.ToolCalls, func(call v1alpha1.ToolCall) bool {
			return call.Name == tool && call.State == state && (len(reason) == 0 || slices.Contains(reason, call.Reason))
		}), nil
	})
}

// turnMatcher matches *v1alpha1.Turn.
func turnMatcher(what string, match func(*v1alpha1.Turn) (bool, error)) gomegatypes.GomegaMatcher {
	return &matcher{what: what, match: match}
}

type matcher struct {
	what  string
	match func(*v1alpha1.Turn) (bool, error)
}

// Match implements GomegaMatcher.
func (m *matcher) Match(actual any) (bool, error) {
	turn, ok := actual.(*v1alpha1.Turn)
	if !ok {
		return false, fmt.Errorf("expected a *v1alpha1.Turn, got a %T", actual)
	}
	return m.match(turn)
}

// FailureMessage implements GomegaMatcher.
func (m *matcher) FailureMessage(actual any) string {
	return fmt.Sprintf("Expected the Turn %s\n%s", m.what, describe(actual))
}

// NegatedFailureMessage implements GomegaMatcher.
func (m *matcher) NegatedFailureMessage(actual any) string {
	return fmt.Sprintf("Expected the Turn not %s\n%s", m.what, describe(actual))
}

// describe returns the state of a Turn, in a few lines.
func describe(actual any) string {
	turn, ok := actual.(*v1alpha1.Turn)
	if !ok {
		return fmt.Sprintf("%v", actual)
	}
	var b strings.Builder
	fmt.Fprintf(
		&b,
		"Turn %s/%s: phase %s, iteration %d",
		turn.Namespace,
		turn.Name,
		turn.Status.Phase,
		turn.Status.Iteration,
	)
	for _, c := range turn.Status.Conditions {
		fmt.Fprintf(&b, "\n  %s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
	}
	for _, call := range turn.Status.ToolCalls {
		fmt.Fprintf(&b, "\n  call %s %s: %s %s %q", call.ID, call.Name, call.State, call.Reason, call.Preview)
	}
	if e := turn.Status.Error; e != nil {
		fmt.Fprintf(&b, "\n  error %s: %s", e.Code, e.Message)
	}
	return b.String()
}

func find(turn *v1alpha1.Turn, kind string) *metav1.Condition {
	for i := range turn.Status.Conditions {
		if turn.Status.Conditions[i].Type == kind {
			return &turn.Status.Conditions[i]
		}
	}
	return nil
}
