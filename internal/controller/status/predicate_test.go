package status

import (
	"reflect"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
)

var early = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))

func TestReadyFlippedLetsOnlyPassWhatDependentsSee(t *testing.T) {
	tool := func(status metav1.ConditionStatus, message string) *v1alpha1.Tool {
		tool := &v1alpha1.Tool{}
		if status != "" {
			condition.Set(&tool.Status.Conditions, 1, early, v1alpha1.ConditionReady, status, "Some", message)
		}
		return tool
	}
	flipped := ReadyFlipped()
	if !flipped.Create(event.CreateEvent{Object: tool("", "")}) ||
		!flipped.Delete(event.DeleteEvent{Object: tool("", "")}) {
		t.Error("a creation or deletion does not pass")
	}
	if flipped.Generic(event.GenericEvent{Object: tool("", "")}) {
		t.Error("an event of no kind passes")
	}
	for name, test := range map[string]struct {
		before, after *v1alpha1.Tool
		want          bool
	}{
		"becomes ready":      {tool("", ""), tool(metav1.ConditionTrue, ""), true},
		"no longer ready":    {tool(metav1.ConditionTrue, ""), tool(metav1.ConditionFalse, ""), true},
		"the same again":     {tool(metav1.ConditionTrue, ""), tool(metav1.ConditionTrue, ""), false},
		"another message":    {tool(metav1.ConditionTrue, "a"), tool(metav1.ConditionTrue, "b"), false},
		"first not usable":   {tool("", ""), tool(metav1.ConditionFalse, ""), false},
		"unknown, then not":  {tool(metav1.ConditionUnknown, ""), tool(metav1.ConditionFalse, ""), false},
		"condition is lost":  {tool(metav1.ConditionTrue, ""), tool("", ""), true},
		"condition is found": {tool("", ""), tool(metav1.ConditionTrue, ""), true},
	} {
		if got := flipped.Update(event.UpdateEvent{ObjectOld: test.before, ObjectNew: test.after}); got != test.want {
			t.Errorf("%s: passes = %t, want %t", name, got, test.want)
		}
	}
}

func TestAnotherObjectOfTheNamePasses(t *testing.T) {
	tool := func(uid types.UID) *v1alpha1.Tool {
		tool := &v1alpha1.Tool{ObjectMeta: metav1.ObjectMeta{UID: uid, Generation: 1}}
		condition.SetReady(&tool.Status.Conditions, 1, early, v1alpha1.ReasonReady, "")
		return tool
	}
	for name, passes := range map[string]predicate.Predicate{
		"ReadyFlipped": ReadyFlipped(), "SpecChanged": SpecChanged(),
	} {
		if !passes.Update(event.UpdateEvent{ObjectOld: tool("1"), ObjectNew: tool("2")}) {
			t.Errorf("%s stops it", name)
		}
		if passes.Update(event.UpdateEvent{ObjectOld: tool("1"), ObjectNew: tool("1")}) {
			t.Errorf("%s passes an update that changes nothing", name)
		}
	}
}

func TestConditionsKnowsEveryKindWithConditions(t *testing.T) {
	scheme := testScheme(t)
	for kind := range scheme.KnownTypes(v1alpha1.GroupVersion) {
		o, err := scheme.New(v1alpha1.GroupVersion.WithKind(kind))
		if err != nil {
			t.Fatal(err)
		}
		status := reflect.ValueOf(o).Elem().FieldByName("Status")
		if !status.IsValid() || status.Kind() != reflect.Struct || !status.FieldByName("Conditions").IsValid() {
			continue
		}
		condition.SetReady(
			status.FieldByName("Conditions").Addr().Interface().(*[]metav1.Condition),
			1,
			early,
			v1alpha1.ReasonReady,
			"",
		)
		if !meta.IsStatusConditionTrue(Conditions(asObject(t, o)), v1alpha1.ConditionReady) {
			t.Errorf("Conditions does not know %s", kind)
		}
	}
}
