package config

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// someModel has a Ready condition of a status, and fallbacks.
func someModel(name string, ready metav1.ConditionStatus, fallbacks ...string) v1alpha1.Model {
	m := v1alpha1.Model{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if ready != "" {
		m.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: ready}}
	}
	for _, fallback := range fallbacks {
		m.Spec.Fallbacks = append(m.Spec.Fallbacks, v1alpha1.LocalReference{Name: fallback})
	}
	return m
}

func TestFallbacksAreThoseThatExistAndAreReady(t *testing.T) {
	r := &Resolved{Models: []v1alpha1.Model{
		someModel("a", metav1.ConditionFalse, "d", "nowhere", "a", "new", "broken", "c"),
		someModel("broken", metav1.ConditionFalse),
		someModel("c", metav1.ConditionTrue, "a", "d"),
		someModel("d", metav1.ConditionTrue, "c", "only-of-d"),
		someModel("new", ""),
		someModel("only-of-d", metav1.ConditionTrue),
	}}
	for i, want := range [][]string{{"d", "c"}, nil, {"d"}, {"c", "only-of-d"}} {
		var got []string
		for _, m := range r.Fallbacks(&r.Models[i]) {
			got = append(got, m.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("the fallbacks of %s are %v, want %v", r.Models[i].Name, got, want)
		}
	}
}
