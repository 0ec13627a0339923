package credential

import (
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

func TestACommandHasNoNameThatCouldBeMoreThanAName(t *testing.T) {
	for use, field := range map[Use]string{
		OfModel: "change secretKeyRef of the Model", OfTool: "change secretKeyRef in the headers of the Tool",
	} {
		problem := Missing("ns", &v1alpha1.SecretKeyReference{Name: "api; echo gone", Key: "key"}, use)
		if strings.Contains(problem, "kubectl") || !strings.Contains(problem, field) {
			t.Errorf("the problem is %s", problem)
		}
	}
}

func TestTheRoleIsForTheAccountThatTheManagerHas(t *testing.T) {
	for account, want := range map[string]string{
		"":                                 "--serviceaccount=capstan-system:capstan-manager",
		"system:serviceaccount:own:agents": "--serviceaccount=own:agents",
		"jane@example.org":                 "--user=jane@example.org",
	} {
		if got := subject(account); got != want {
			t.Errorf("%q: %s, want %s", account, got, want)
		}
	}
}
