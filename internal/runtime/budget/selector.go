package budget

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Selector returns the selector of a Budget for the labels of Sessions.
func Selector(s v1alpha1.BudgetSelector) (labels.Selector, error) {
	standard := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	for key, value := range s.MatchLabels {
		standard.MatchLabels[key] = string(value)
	}
	for _, r := range s.MatchExpressions {
		one := metav1.LabelSelectorRequirement{Key: r.Key, Operator: metav1.LabelSelectorOperator(r.Operator)}
		for _, value := range r.Values {
			one.Values = append(one.Values, string(value))
		}
		standard.MatchExpressions = append(standard.MatchExpressions, one)
	}
	selector, err := metav1.LabelSelectorAsSelector(standard)
	if err != nil {
		return nil, fmt.Errorf("reading sessionSelector: %w", err)
	}
	return selector, nil
}

// Everything reports whether a selector selects every Session.
func Everything(s v1alpha1.BudgetSelector) bool {
	return len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0
}
