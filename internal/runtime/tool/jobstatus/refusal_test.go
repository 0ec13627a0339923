package jobstatus

import (
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

func TestARefusalReportsWhetherAQuotaIsMeant(t *testing.T) {
	const quota, refused = v1alpha1.ToolCallReasonQuotaExceeded, v1alpha1.ToolCallReasonRefused
	for message, want := range map[string]string{
		`Error creating: pods "c-x" is forbidden: exceeded quota: small, ` +
			`requested: pods=1, used: pods=2, limited: pods=2`: quota,
		`jobs.batch "c" is forbidden: exceeded quota: jobs, ` +
			`requested: count/jobs.batch=1, used: count/jobs.batch=0, limited: count/jobs.batch=0`: quota,
		`Error creating: pods "c-x" is forbidden: violates PodSecurity "restricted:latest"`: refused,
		`admission webhook "images.example.org" denied the request: unsigned image`:         refused,
	} {
		got := Refused(message)
		if got.State != v1alpha1.ToolCallStateNotExecuted || got.Reason != want || got.Started || got.Retryable {
			t.Errorf("%s: %+v", message, got)
		}
		if words := strings.TrimPrefix(
			message,
			"Error creating: ",
		); !strings.Contains(got.Error, words) ||
			strings.Contains(got.Error, "Error creating") {
			t.Errorf("the error has no reason: %s", got.Error)
		}
	}
}

func TestAQuotaThatIsNotCountedYetIsWorthAnotherTry(t *testing.T) {
	if !RefusedForNow(`jobs.batch "c" is forbidden: status unknown for quota: jobs, resources: count/jobs.batch`) {
		t.Error("a new quota refuses for good")
	}
	if RefusedForNow(
		`jobs.batch "c" is forbidden: exceeded quota: jobs, requested: count/jobs.batch=1, used: count/jobs.batch=0, ` +
			`limited: count/jobs.batch=0`,
	) {
		t.Error("a full quota refuses for now only")
	}
}
