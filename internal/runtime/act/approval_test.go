package act

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

func TestUntilWhenACallCanBeApproved(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC)
	for name, c := range map[string]struct {
		spec v1alpha1.ToolSpec
		want time.Duration // from the next full second on
	}{
		"a day by default": {v1alpha1.ToolSpec{Policy: v1alpha1.ToolPolicyRequiresApproval}, 24 * time.Hour},
		"the time of the Tool": {
			v1alpha1.ToolSpec{
				Policy: v1alpha1.ToolPolicyRequiresApproval, ApprovalTimeout: &metav1.Duration{Duration: time.Second},
			},
			time.Second,
		},
	} {
		var call v1alpha1.ToolCall
		waits := AwaitApproval(&call, c.spec.Policy, c.spec.ApprovalTimeout, now)
		if by := call.ApproveBy; !waits || !AwaitsApproval(call) || by == nil ||
			!by.Equal(&metav1.Time{Time: now.Truncate(time.Second).Add(time.Second + c.want)}) {
			t.Errorf("%s: waits %t, until %v", name, waits, call.ApproveBy)
		}
	}
	for _, policy := range []v1alpha1.ToolPolicy{"", v1alpha1.ToolPolicyAuto} {
		var call v1alpha1.ToolCall
		if AwaitApproval(&call, policy, nil, now) || call.ApproveBy != nil || AwaitsApproval(call) {
			t.Errorf("policy %q: the call waits: %+v", policy, call)
		}
	}
}

func TestWhichCallsAreHeldBack(t *testing.T) {
	for name, c := range map[string]struct {
		concurrency v1alpha1.ToolConcurrency
		calls       string
		want        []bool
	}{
		"none without approvals":       {"", "P R w S", []bool{false, false, false, false}},
		"a call that waits itself":     {"", "W P", []bool{true, false}},
		"its class behind it":          {"", "Px Wx Px Py", []bool{false, true, true, false}},
		"all behind it, one by one":    {v1alpha1.ToolConcurrencySequential, "P W P W", []bool{false, true, true, true}},
		"not one that runs or ended":   {v1alpha1.ToolConcurrencySequential, "W R S", []bool{true, false, false}},
		"not one that a client runs":   {v1alpha1.ToolConcurrencySequential, "W w", []bool{true, false}},
		"not behind one that is ended": {v1alpha1.ToolConcurrencySequential, "N P", []bool{false, false}},
	} {
		if got := heldBack(callsOf(c.calls), c.concurrency); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
