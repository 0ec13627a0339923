package pending

import (
	"fmt"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Kind is what a call waits for.
type Kind string

// The kinds, as the reasons of the calls in the status of a Turn.
const (
	Approval   Kind = v1alpha1.ReasonApproval
	Client     Kind = v1alpha1.ReasonClientTools
	Input      Kind = v1alpha1.ReasonInput
	Connection Kind = v1alpha1.ReasonConnection
)

// Call is a call that waits.
type Call struct {
	v1alpha1.ToolCall
	// Kind is what it waits for.
	Kind Kind
	// Whole reports whether Arguments are complete.
	Whole bool
}

// Of returns the calls of a Turn that wait for people, in their order.
func Of(turn *v1alpha1.Turn) []Call {
	if Ended(turn) {
		return nil
	}
	var calls []Call
	for _, c := range turn.Status.ToolCalls {
		if c.State != v1alpha1.ToolCallStateWaiting {
			continue
		}
		kind := Client
		switch {
		case c.Reason == v1alpha1.ReasonApproval:
			kind = Approval
		case c.Reason == v1alpha1.ReasonConnection:
			kind = Connection
		case c.Input != nil:
			kind = Input
		}
		// Arguments that were cut are not JSON any more: the status has all of them, or none and a preview.
		calls = append(calls, Call{ToolCall: c, Kind: kind, Whole: c.Arguments != "" && c.Preview == ""})
	}
	return calls
}

// Ended reports whether a Turn has ended.
func Ended(turn *v1alpha1.Turn) bool {
	switch turn.Status.Phase {
	case v1alpha1.TurnPhaseSucceeded, v1alpha1.TurnPhaseFailed, v1alpha1.TurnPhaseCancelled:
		return true
	default:
		return false
	}
}

// Select returns the calls with the ids out of those that wait for one of the kinds. Without ids it returns the only
// one. An error names what there is.
func Select(turn string, calls []Call, ids []string, kinds ...Kind) ([]Call, error) {
	fit := slices.DeleteFunc(slices.Clone(calls), func(c Call) bool { return !slices.Contains(kinds, c.Kind) })
	if len(fit) == 0 {
		return nil, fmt.Errorf("turn %s has no call that waits for %s. %s", turn, words(kinds), others(turn, calls))
	}
	if len(ids) == 0 {
		if len(fit) > 1 {
			return nil, fmt.Errorf("turn %s has %d calls that wait for %s: name one of %s", turn, len(fit), words(kinds),
				names(fit))
		}
		return fit, nil
	}
	var chosen []Call
	for _, id := range ids {
		at := slices.IndexFunc(fit, func(c Call) bool { return c.ID == id })
		if at < 0 {
			return nil, fmt.Errorf("call %s of Turn %s does not wait for %s. These do: %s", id, turn, words(kinds), names(fit))
		}
		if !slices.ContainsFunc(chosen, func(c Call) bool { return c.ID == id }) {
			chosen = append(chosen, fit[at])
		}
	}
	return chosen, nil
}

func words(kinds []Kind) string {
	all := make([]string, len(kinds))
	for i, k := range kinds {
		all[i] = k.Words()
	}
	return strings.Join(all, " or ")
}

// Words names a kind.
func (k Kind) Words() string {
	switch k {
	case Approval:
		return "approval"
	case Input:
		return "an answer"
	case Connection:
		return "a connection"
	default:
		return "a result from a client"
	}
}

func others(turn string, calls []Call) string {
	if len(calls) == 0 {
		return "See what it does: kubectl capstan log turn/" + turn
	}
	all := make([]string, len(calls))
	for i, c := range calls {
		all[i] = fmt.Sprintf("%s %s waits for %s", c.ID, c.Name, c.Kind.Words())
	}
	return "Its calls: " + strings.Join(all, "; ")
}

func names(calls []Call) string {
	all := make([]string, len(calls))
	for i, c := range calls {
		all[i] = fmt.Sprintf("%s (%s)", c.ID, c.Name)
	}
	return strings.Join(all, ", ")
}
