package configsource

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// edited returns a copy of an object that edits were made to.
func edited[T client.Object](o T, edits ...func(T)) T {
	changed := o.DeepCopyObject().(T)
	for _, edit := range edits {
		edit(changed)
	}
	return changed
}

func readiness(status metav1.ConditionStatus, message string) []metav1.Condition {
	return []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: status, Reason: "Some", Message: message}}
}

func TestTheChangesThatMatterPass(t *testing.T) {
	model := &v1alpha1.Model{ObjectMeta: named("m"), Status: v1alpha1.ModelStatus{Conditions: readiness("False", "a")}}
	tool := &v1alpha1.Tool{ObjectMeta: named("t"), Status: v1alpha1.ToolStatus{Conditions: readiness("False", "a")}}
	server := &v1alpha1.MCPServer{
		ObjectMeta: named("s"), Status: v1alpha1.MCPServerStatus{Conditions: readiness("True", "a")},
	}
	moved := func(s *v1alpha1.MCPServer) { s.Status.DiscoveredConnection = "another" }
	asked := func(s *v1alpha1.MCPServer) { s.Status.LastDiscoveryTime = &metav1.Time{} }
	labelled := func(o client.Object) { o.SetLabels(map[string]string{"team": "a"}) }
	replaced := func(o client.Object) { o.SetUID("another") }
	spec := func(o client.Object) { o.SetGeneration(2) }
	byDefault := func(o client.Object) {
		o.SetAnnotations(map[string]string{v1alpha1.AnnotationDefaultModel: "true"})
	}
	readyModel := func(m *v1alpha1.Model) { m.Status.Conditions = readiness("True", "a") }
	otherModel := func(m *v1alpha1.Model) { m.Status.Conditions = readiness("False", "b") }
	readyTool := func(o *v1alpha1.Tool) { o.Status.Conditions = readiness("True", "a") }
	otherTool := func(o *v1alpha1.Tool) { o.Status.Conditions = readiness("False", "b") }
	unbound := func(o *v1alpha1.Tool) { o.Spec.Job = &v1alpha1.JobTool{} }
	models, tools := ModelChanged(), ToolChanged()
	for name, test := range map[string]struct {
		before, after client.Object
		// session and namer report whether the change wakes a Session, and an Agent or Harness that names the object.
		session, namer bool
	}{
		"the labels of a Model":       {model, edited(model, func(m *v1alpha1.Model) { labelled(m) }), false, false},
		"another Model of the name":   {model, edited(model, func(m *v1alpha1.Model) { replaced(m) }), true, true},
		"the spec of a Model":         {model, edited(model, func(m *v1alpha1.Model) { spec(m) }), true, true},
		"the default Model":           {model, edited(model, func(m *v1alpha1.Model) { byDefault(m) }), true, false},
		"a Model that becomes ready":  {model, edited(model, readyModel), true, true},
		"why a Model is not ready":    {model, edited(model, otherModel), true, true},
		"the labels of a Tool":        {tool, edited(tool, func(o *v1alpha1.Tool) { labelled(o) }), false, false},
		"another Tool of the name":    {tool, edited(tool, func(o *v1alpha1.Tool) { replaced(o) }), true, true},
		"the description of a Tool":   {tool, edited(tool, func(o *v1alpha1.Tool) { spec(o) }), true, false},
		"a Tool that becomes ready":   {tool, edited(tool, readyTool), true, true},
		"why a Tool is not ready":     {tool, edited(tool, otherTool), false, false},
		"a discovery":                 {server, edited(server, asked), false, false},
		"a discovery somewhere else":  {server, edited(server, moved), true, true},
		"a Tool that becomes unbound": {tool, edited(tool, func(o *v1alpha1.Tool) { spec(o) }, unbound), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			namers := models
			if _, ok := test.before.(*v1alpha1.Tool); ok {
				namers = tools
			}
			for who, passes := range map[string]struct {
				predicate predicate.Predicate
				want      bool
			}{"a Session": {LayerChanged(), test.session}, "what names it": {namers, test.namer}} {
				got := passes.predicate.Update(event.UpdateEvent{ObjectOld: test.before, ObjectNew: test.after})
				if got != passes.want {
					t.Errorf("wakes %s: %t, want %t", who, got, passes.want)
				}
				if !passes.predicate.Create(event.CreateEvent{Object: test.before}) ||
					!passes.predicate.Delete(event.DeleteEvent{Object: test.before}) {
					t.Errorf("a creation or a deletion does not wake %s", who)
				}
			}
		})
	}
}

func TestTheCallersOfAModelFallBackToIt(t *testing.T) {
	fallingBack := func(name string, to ...string) *v1alpha1.Model {
		m := &v1alpha1.Model{ObjectMeta: named(name)}
		for _, fallback := range to {
			m.Spec.Fallbacks = append(m.Spec.Fallbacks, v1alpha1.LocalReference{Name: fallback})
		}
		return m
	}
	elsewhere := fallingBack("elsewhere", "a")
	elsewhere.Namespace = "other"
	a := fallingBack("a", "a", "b")
	objects := []client.Object{a, fallingBack("b", "c"), fallingBack("c", "b", "a"), elsewhere}
	for i := range 100 {
		objects = append(objects, fallingBack(fmt.Sprintf("other-%d", i), "b"))
	}
	reader := newServer(t, objects...)
	callers, err := Callers(t.Context(), reader, a)
	slices.Sort(callers)
	if err != nil || !slices.Equal(callers, []string{"a", "c"}) {
		t.Errorf("the callers are %v, %v", callers, err)
	}
	// A namespace may have any number of Models, and each change of one looks for its callers.
	if reader.listed > 2 {
		t.Errorf("%d Models were read to find the callers of one", reader.listed)
	}
}
