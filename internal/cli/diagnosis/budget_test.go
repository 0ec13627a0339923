package diagnosis

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

func TestABudgetThatMakesTurnsWaitIsFound(t *testing.T) {
	ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}
	for kind, want := range map[string]int{
		v1alpha1.ConditionExhausted: 1, v1alpha1.ConditionPaused: 1, v1alpha1.ConditionLowBalance: 0,
	} {
		n := Namespace{Name: "shop", Objects: []Object{{
			Kind: "Budget", Name: "team", Conditions: []metav1.Condition{ready, {Type: kind, Status: metav1.ConditionTrue}},
		}}}
		if found := n.notReady(); len(found) != want {
			t.Errorf("%s: findings %+v", kind, found)
		}
	}
}
