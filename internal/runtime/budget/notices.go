package budget

import (
	"slices"
	"sync"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Noted is a Notice and its time.
type Noted struct {
	Notice
	At time.Time
}

// Notices are the changes of Budgets that a process has noted for a Turn: each change once, and those of the open step
// until it is closed. It is safe for concurrent use. Its methods may be called on nil.
type Notices struct {
	mu sync.Mutex
	// warned are the Budgets with a warning, by name.
	warned map[string]bool
	step   int32
	noted  []Noted
}

// Warn notes that the balance of a Budget is low, once for the Turn.
func (n *Notices) Warn(step int32, at time.Time, name string) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.warned[name] {
		return
	}
	if n.warned == nil {
		n.warned = map[string]bool{}
	}
	n.warned[name] = true
	n.add(step, at, Notice{Kind: NoticeWarning, Budget: name, Message: "A fifth of the limit or less is left."})
}

// Wait notes that the Turn waits, or ends, because of a Budget.
func (n *Notices) Wait(step int32, at time.Time, notice Notice) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.step == step && len(n.noted) > 0 {
		if last := n.noted[len(n.noted)-1]; last.Kind == notice.Kind && last.Budget == notice.Budget {
			return
		}
	}
	n.add(step, at, notice)
}

// Resume notes that the Turn continues after a wait. waited is that wait, for a process that has not noted it.
func (n *Notices) Resume(step int32, at time.Time, waited Notice) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	waits := func(one Noted) bool { return one.Kind == NoticePaused || one.Kind == NoticeExhausted }
	if n.step != step || !slices.ContainsFunc(n.noted, waits) {
		n.add(step, at, waited)
	}
	n.add(step, at, Notice{Kind: NoticeResumed, Budget: waited.Budget, Message: "The Turn continues."})
}

// add adds a notice. Those of an earlier step are in its entry.
func (n *Notices) add(step int32, at time.Time, notice Notice) {
	if n.step != step {
		n.step, n.noted = step, nil
	}
	n.noted = append(n.noted, Noted{Notice: notice, At: at})
}

// Of returns the notices of a step, in order.
func (n *Notices) Of(step int32) []Noted {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.step != step {
		return nil
	}
	return slices.Clone(n.noted)
}

// NoticeOf returns the notice about a refusal.
func NoticeOf(reason, budget, message string) Notice {
	kind := NoticePaused
	if reason == v1alpha1.ReasonBudgetExhausted {
		kind = NoticeExhausted
	}
	return Notice{Kind: kind, Budget: budget, Message: message}
}
