package act

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// calls reads calls from words: the state (P pending, R running, S succeeded, F failed, U unknown, N not executed), and
// after it the concurrency class. A lower-case letter is a call of a client tool. W is a call that waits for approval.
func callsOf(words string) []v1alpha1.ToolCall {
	states := map[string]v1alpha1.ToolCallState{
		"P": v1alpha1.ToolCallStatePending,
		"R": v1alpha1.ToolCallStateRunning,
		"S": v1alpha1.ToolCallStateSucceeded,
		"F": v1alpha1.ToolCallStateFailed,
		"U": v1alpha1.ToolCallStateUnknown,
		"N": v1alpha1.ToolCallStateNotExecuted,
		"W": v1alpha1.ToolCallStateWaiting,
	}
	var calls []v1alpha1.ToolCall
	for i, word := range strings.Fields(words) {
		call := v1alpha1.ToolCall{
			ID: "1-" + strconv.Itoa(i), Executor: v1alpha1.ToolExecutorJob, Attempt: 1,
			State: states[strings.ToUpper(word[:1])], ConcurrencyClass: word[1:],
		}
		if word[0] >= 'a' {
			call.Executor = v1alpha1.ToolExecutorClient
		}
		if word[0] == 'W' {
			call.Policy, call.Attempt = v1alpha1.ToolPolicyRequiresApproval, 0
		}
		calls = append(calls, call)
	}
	return calls
}

// Rules: TOOL-12.
func TestWhichCallsMayStart(t *testing.T) {
	parallel, sequential := v1alpha1.ToolConcurrencyParallel, v1alpha1.ToolConcurrencySequential
	for name, c := range map[string]struct {
		concurrency v1alpha1.ToolConcurrency
		calls       string
		limit       int
		want        []int
	}{
		"nothing of nothing":                {parallel, "", 32, nil},
		"all of several":                    {parallel, "P P P", 32, []int{0, 1, 2}},
		"all by default":                    {"", "P P", 0, []int{0, 1}},
		"not one that has ended":            {parallel, "S F U N P", 32, []int{4}},
		"not one that runs":                 {parallel, "R P", 32, []int{1}},
		"not one that waits for a client":   {parallel, "w p P", 32, []int{2}},
		"up to the limit":                   {parallel, "P P P P", 2, []int{0, 1}},
		"up to the limit with some running": {parallel, "R P R P", 3, []int{1}},
		"none at the limit":                 {parallel, "R R P", 2, nil},
		"one of a class":                    {parallel, "Px Px Px", 32, []int{0}},
		"one of each class":                 {parallel, "Px Py Px P Py", 32, []int{0, 1, 3}},
		"none of a class that runs":         {parallel, "Rx Px Py", 32, []int{2}},
		"the next of a class":               {parallel, "Sx Fx Px Px", 32, []int{2}},
		"a class that runs further on":      {parallel, "Px Rx", 32, nil},
		"a retry before those after it":     {parallel, "Px Sx Px", 32, []int{0}},
		"clients hold no class":             {parallel, "wx Px", 32, []int{1}},
		"clients take no place":             {parallel, "w w P", 1, []int{2}},
		"one by one":                        {sequential, "P P P", 32, []int{0}},
		"one by one, the next":              {sequential, "S F P P", 32, []int{2}},
		"one by one, while one runs":        {sequential, "S R P", 32, nil},
		"one by one, past clients":          {sequential, "w P P", 32, []int{1}},
		"one by one, whatever the limit":    {sequential, "P P", 0, []int{0}},
		"not one that waits for approval":   {parallel, "W P W", 32, []int{1}},
		"approvals take no place":           {parallel, "W W P", 1, []int{2}},
		"none behind an approval in class":  {parallel, "Wx Px Py P", 32, []int{2, 3}},
		"those before an approval in class": {parallel, "Px Wx Px", 32, []int{0}},
		"behind one that was rejected":      {parallel, "Nx Px", 32, []int{1}},
		"one by one, none behind approvals": {sequential, "W P P", 32, nil},
		"one by one, up to an approval":     {sequential, "S P W P", 32, []int{1}},
		"one by one, past a refused call":   {sequential, "N P", 32, []int{1}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := chosen(callsOf(c.calls), c.concurrency, c.limit); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// Rules: TOOL-12.
func TestWithoutALimitTheStandardOneHolds(t *testing.T) {
	calls := callsOf(strings.Repeat("P ", tool.MaxCallsPerStep))
	for _, limit := range []int{0, -1} {
		if got := chosen(calls, v1alpha1.ToolConcurrencyParallel, limit); len(got) != MaxConcurrency {
			t.Errorf("%d may start", len(got))
		}
	}
}

func FuzzStartable(f *testing.F) {
	f.Add("P Px Px S p", 2, true)
	f.Fuzz(func(t *testing.T, words string, limit int, sequential bool) {
		for _, word := range strings.Fields(words) {
			if !strings.ContainsRune("PSFUNWpsfunw", rune(word[0])) {
				return
			}
		}
		concurrency, most := v1alpha1.ToolConcurrencyParallel, limit
		if limit < 1 {
			most = MaxConcurrency
		}
		if sequential {
			concurrency, most = v1alpha1.ToolConcurrencySequential, 1
		}
		calls := callsOf(words)
		// All that may start is started, one runs to its end or, when none does, one is approved, and so on: everything
		// runs, never more than may, and nothing that is not approved.
		for range 2*len(calls) + 1 {
			for _, i := range chosen(calls, concurrency, limit) {
				if Unapproved(calls[i]) {
					t.Errorf("call %d may start without an approval", i)
				}
				calls[i].State = v1alpha1.ToolCallStateRunning
			}
			if first := checkLimits(t, calls, most); first >= 0 {
				calls[first].State = v1alpha1.ToolCallStateSucceeded
			} else if waits := slices.IndexFunc(calls, AwaitsApproval); waits >= 0 {
				Approve(&calls[waits])
			}
		}
		for i := range calls {
			if open(&calls[i]) {
				t.Errorf("call %d never ran", i)
			}
		}
	})
}

// checkLimits returns the first call that runs, or -1.
func checkLimits(t *testing.T, calls []v1alpha1.ToolCall, most int) int {
	t.Helper()
	running, classes, first := 0, map[string]int{}, -1
	for i := range calls {
		if !open(&calls[i]) || calls[i].State != v1alpha1.ToolCallStateRunning {
			continue
		}
		if first < 0 {
			first = i
		}
		running++
		if class := calls[i].ConcurrencyClass; class != "" {
			classes[class]++
			if classes[class] > 1 {
				t.Errorf("several calls of class %q run", class)
			}
		}
	}
	if running > most {
		t.Errorf("%d run, %d may", running, most)
	}
	return first
}
