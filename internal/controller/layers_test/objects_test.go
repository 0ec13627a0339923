package layers_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/status"
)

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func newModel(namespace, name string) *v1alpha1.Model {
	return &v1alpha1.Model{
		ObjectMeta: meta(namespace, name),
		Spec:       v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderSimulated, Simulation: &v1alpha1.Simulation{}},
	}
}

func newTool(namespace, name string) *v1alpha1.Tool {
	return &v1alpha1.Tool{
		ObjectMeta: meta(namespace, name),
		Spec: v1alpha1.ToolSpec{
			Description: "Counts.",
			Client:      &v1alpha1.ClientTool{},
			InputSchema: &v1alpha1.JSON{Raw: []byte(`{"type":"object"}`)},
		},
	}
}

func newHarness(namespace, name, parent string, layer v1alpha1.ConfigLayer) *v1alpha1.Harness {
	h := &v1alpha1.Harness{ObjectMeta: meta(namespace, name), Spec: v1alpha1.HarnessSpec{ConfigLayer: layer}}
	if parent != "" {
		h.Spec.ParentRef = &v1alpha1.LocalReference{Name: parent}
	}
	return h
}

func newAgent(namespace, name string, layer v1alpha1.ConfigLayer) *v1alpha1.Agent {
	return &v1alpha1.Agent{ObjectMeta: meta(namespace, name), Spec: v1alpha1.AgentSpec{ConfigLayer: layer}}
}

func usesModel(name string) v1alpha1.ConfigLayer {
	return v1alpha1.ConfigLayer{ModelRef: &v1alpha1.LocalReference{Name: name}}
}

func usesTools(names ...string) v1alpha1.ConfigLayer {
	var layer v1alpha1.ConfigLayer
	for _, name := range names {
		layer.Tools = append(layer.Tools, v1alpha1.LocalReference{Name: name})
	}
	return layer
}

func create(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	for _, o := range objects {
		o.SetResourceVersion("")
		Expect(direct.Create(ctx, o)).To(Succeed())
	}
}

// ready reads an object and returns its Ready condition as "Reason: message"; empty while there is none for the newest
// spec.
func ready(ctx context.Context, o client.Object) func(Gomega) string {
	return func(g Gomega) string {
		g.Expect(direct.Get(ctx, client.ObjectKeyFromObject(o), o)).To(Succeed())
		c := apimeta.FindStatusCondition(status.Conditions(o), v1alpha1.ConditionReady)
		if c == nil || c.ObservedGeneration != o.GetGeneration() {
			return ""
		}
		if c.Reason == v1alpha1.ReasonReady {
			g.Expect(c.Status).To(Equal(metav1.ConditionTrue))
		} else {
			g.Expect(c.Status).To(Equal(metav1.ConditionFalse))
		}
		return c.Reason + ": " + c.Message
	}
}

// expectReady waits until all objects are Ready.
func expectReady(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	for _, o := range objects {
		Eventually(ready(ctx, o)).Should(HavePrefix("Ready: "), "%T %s", o, client.ObjectKeyFromObject(o))
	}
}

// expectUnready waits until the Ready conditions are False with the reason and a message with the parts.
func expectUnready(ctx context.Context, reason string, parts []string, objects ...client.Object) {
	GinkgoHelper()
	for _, o := range objects {
		matcher := HavePrefix(reason + ": ")
		for _, part := range parts {
			matcher = SatisfyAll(matcher, ContainSubstring(part))
		}
		Eventually(ready(ctx, o)).Should(matcher, "%T %s", o, client.ObjectKeyFromObject(o))
	}
}
