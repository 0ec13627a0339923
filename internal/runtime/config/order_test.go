package config

import (
	"context"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// namespaced are the objects of a namespace.
type namespaced struct {
	harnesses map[string]*v1alpha1.Harness
	agents    map[string]*v1alpha1.Agent
	tools     map[string]*v1alpha1.Tool
	models    []v1alpha1.Model
	servers   map[string]*v1alpha1.MCPServer
	bundles   map[string]*v1alpha1.Capability
}

func (o namespaced) Harness(_ context.Context, name string) (*v1alpha1.Harness, error) {
	return o.harnesses[name], nil
}

func (o namespaced) Agent(_ context.Context, name string) (*v1alpha1.Agent, error) {
	return o.agents[name], nil
}

func (o namespaced) Tool(_ context.Context, name string) (*v1alpha1.Tool, error) {
	return o.tools[name], nil
}

func (o namespaced) Capability(_ context.Context, name string) (*v1alpha1.Capability, error) {
	return o.bundles[name], nil
}

func (o namespaced) MCPServer(_ context.Context, name string) (*v1alpha1.MCPServer, error) {
	return o.servers[name], nil
}

func (o namespaced) Model(_ context.Context, name string) (*v1alpha1.Model, error) {
	for i := range o.models {
		if o.models[i].Name == name {
			return &o.models[i], nil
		}
	}
	return nil, nil
}

func (o namespaced) Models(context.Context) ([]v1alpha1.Model, error) { return o.models, nil }

// TestTheLayersOfASessionAreFoldedFromTheRootToTheSession: every Harness of the chain from the root on, then the Agent,
// then the Session (CFG-02).
func TestTheLayersOfASessionAreFoldedFromTheRootToTheSession(t *testing.T) {
	layer := func(name string, iterations int32) v1alpha1.ConfigLayer {
		return v1alpha1.ConfigLayer{
			SystemPrompt:  name,
			Tools:         refs(name, "all"),
			ModelRef:      ref(name),
			MaxIterations: number(iterations),
		}
	}
	harness := func(name, parent string, iterations int32) *v1alpha1.Harness {
		h := &v1alpha1.Harness{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       v1alpha1.HarnessSpec{ConfigLayer: layer(name, iterations)},
		}
		if parent != "" {
			h.Spec.ParentRef = ref(parent)
		}
		return h
	}
	source := namespaced{
		harnesses: map[string]*v1alpha1.Harness{
			"root":   harness("root", "", 9),
			"middle": harness("middle", "root", 8),
			"leaf":   harness("leaf", "middle", 7),
		},
		agents: map[string]*v1alpha1.Agent{"agent": {
			ObjectMeta: metav1.ObjectMeta{Name: "agent"}, Spec: v1alpha1.AgentSpec{ConfigLayer: layer("agent", 6)},
		}},
	}
	session := func(agent bool, own v1alpha1.ConfigLayer) *v1alpha1.Session {
		s := &v1alpha1.Session{
			Spec: v1alpha1.SessionSpec{HarnessRef: v1alpha1.LocalReference{Name: "leaf"}, ConfigLayer: own},
		}
		if agent {
			s.Spec.AgentRef = ref("agent")
		}
		return s
	}
	for name, test := range map[string]struct {
		session    *v1alpha1.Session
		prompt     string
		tools      []string
		model      string
		iterations int32
	}{
		"all layers": {
			session(true, layer("session", 5)), "root\n\nmiddle\n\nleaf\n\nagent\n\nsession",
			[]string{"root", "all", "middle", "leaf", "agent", "session"},
			"session", 5,
		},
		"a Session without settings": {
			session(true, v1alpha1.ConfigLayer{}), "root\n\nmiddle\n\nleaf\n\nagent", []string{
				"root", "all", "middle", "leaf", "agent",
			}, "agent", 6,
		},
		"no Agent": {
			session(false, v1alpha1.ConfigLayer{}), "root\n\nmiddle\n\nleaf",
			[]string{"root", "all", "middle", "leaf"},
			"leaf",
			7,
		},
		"no Agent, and a Session that does": {
			session(false, layer("session", 5)), "root\n\nmiddle\n\nleaf\n\nsession",
			[]string{"root", "all", "middle", "leaf", "session"},
			"session", 5,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Resolve(t.Context(), source, test.session)
			if err != nil {
				t.Fatal(err)
			}
			e := r.Effective
			if e.SystemPrompt != test.prompt || !slices.Equal(e.Tools, test.tools) || e.ModelRef != test.model ||
				e.MaxIterations != test.iterations {
				t.Errorf("Effective = %+v", e)
			}
		})
	}
}
