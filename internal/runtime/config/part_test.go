package config

import (
	"context"
	"errors"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// An Agent or a Harness is judged as a Session with the same layer is, but needs no default Model.
func TestAPartIsJudgedAsASessionIs(t *testing.T) {
	layer := func(model string, tools ...string) v1alpha1.ConfigLayer {
		l := v1alpha1.ConfigLayer{Tools: refs(tools...)}
		if model != "" {
			l.ModelRef = ref(model)
		}
		return l
	}
	source := namespaced{
		harnesses: map[string]*v1alpha1.Harness{"root": {ObjectMeta: metav1.ObjectMeta{Name: "root"}}},
		models: []v1alpha1.Model{
			someModel("ready", metav1.ConditionTrue), keyless("alone"), keyless("held", "alone", "gone", "held", "ready"),
		},
		tools: map[string]*v1alpha1.Tool{
			"count": someTool("count", metav1.ConditionTrue), "broken": someTool("broken", metav1.ConditionFalse),
		},
	}
	for name, test := range map[string]struct {
		layer  v1alpha1.ConfigLayer
		reason string
		models []string
	}{
		"all is there":               {layer("ready", "count"), "", []string{"ready"}},
		"a fallback can be called":   {layer("held", "count"), "", []string{"held", "alone", "ready"}},
		"no fallback can be called":  {layer("alone"), v1alpha1.ReasonModelNotReady, []string{"alone"}},
		"a Model that is missing":    {layer("gone"), v1alpha1.ReasonModelNotFound, nil},
		"a Tool that is missing":     {layer("ready", "lost", "count"), v1alpha1.ReasonToolNotFound, []string{"ready"}},
		"a Tool that is not ready":   {layer("ready", "broken"), v1alpha1.ReasonToolNotReady, []string{"ready"}},
		"several that are not there": {layer("alone", "lost", "broken"), v1alpha1.ReasonToolNotFound, []string{"alone"}},
	} {
		t.Run(name, func(t *testing.T) {
			session := &v1alpha1.Session{Spec: v1alpha1.SessionSpec{HarnessRef: *ref("root"), ConfigLayer: test.layer}}
			agent := &v1alpha1.Agent{Spec: v1alpha1.AgentSpec{ConfigLayer: test.layer}}
			agent.Name = "agent"
			leaf := &v1alpha1.Harness{Spec: v1alpha1.HarnessSpec{ConfigLayer: test.layer, ParentRef: ref("root")}}
			leaf.Name = "leaf"
			whole, err := Resolve(t.Context(), source, session)
			if err != nil {
				t.Fatal(err)
			}
			ofAgent, errAgent := ResolveAgent(t.Context(), source, agent)
			ofHarness, errHarness := ResolveHarness(t.Context(), source, leaf)
			if err := errors.Join(errAgent, errHarness); err != nil {
				t.Fatal(err)
			}
			reason, message := whole.Problem()
			if reason != test.reason {
				t.Errorf("the Session has the problem %q, %q", reason, message)
			}
			for kind, part := range map[string]*Resolved{"Agent": ofAgent, "Harness": ofHarness} {
				if gotReason, gotMessage := part.Problem(); gotReason != reason || gotMessage != message {
					t.Errorf("the %s has the problem %q, %q, and the Session %q", kind, gotReason, gotMessage, message)
				}
				var read []string
				for _, m := range part.Models {
					read = append(read, m.Name)
				}
				if !slices.Equal(read, test.models) {
					t.Errorf("for the %s %v were read, want %v", kind, read, test.models)
				}
			}
		})
	}
	part, err := ResolveAgent(t.Context(), source, &v1alpha1.Agent{})
	if err != nil {
		t.Fatal(err)
	}
	if reason, message := part.Problem(); reason != "" {
		t.Errorf("an Agent that names no Model has the problem %q, %q", reason, message)
	}
}

// unreadable is a namespace of which one kind cannot be read.
type unreadable struct {
	namespaced
	kind string
}

var errUnreadable = errors.New("no connection")

func (u unreadable) Harness(ctx context.Context, name string) (*v1alpha1.Harness, error) {
	if u.kind == "Harness" {
		return nil, errUnreadable
	}
	return u.namespaced.Harness(ctx, name)
}

func (u unreadable) Model(ctx context.Context, name string) (*v1alpha1.Model, error) {
	if u.kind == "Model" || u.kind == name {
		return nil, errUnreadable
	}
	return u.namespaced.Model(ctx, name)
}

func (u unreadable) Tool(ctx context.Context, name string) (*v1alpha1.Tool, error) {
	if u.kind == "Tool" {
		return nil, errUnreadable
	}
	return u.namespaced.Tool(ctx, name)
}

// What cannot be read is not missing.
func TestAPartWhoseObjectsCannotBeReadIsAnError(t *testing.T) {
	own := v1alpha1.ConfigLayer{ModelRef: ref("m"), Tools: refs("count")}
	leaf := &v1alpha1.Harness{Spec: v1alpha1.HarnessSpec{ConfigLayer: own, ParentRef: ref("root")}}
	leaf.Name = "leaf"
	there := namespaced{models: []v1alpha1.Model{someModel("m", metav1.ConditionTrue, "fallback")}}
	for _, kind := range []string{"Harness", "Model", "fallback", "Tool"} {
		_, err := ResolveHarness(t.Context(), unreadable{there, kind}, leaf)
		if !errors.Is(err, errUnreadable) {
			t.Errorf("of a Harness, where %s cannot be read: %v", kind, err)
		}
		if kind == "Harness" {
			continue
		}
		_, err = ResolveAgent(
			t.Context(),
			unreadable{there, kind},
			&v1alpha1.Agent{Spec: v1alpha1.AgentSpec{ConfigLayer: own}},
		)
		if !errors.Is(err, errUnreadable) {
			t.Errorf("of an Agent, where %s cannot be read: %v", kind, err)
		}
	}
}
