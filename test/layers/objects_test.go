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
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/test/internal/suite"
)

// newModel returns a Model that responds with a default text.
func newModel(namespace, name string) *v1alpha1.Model {
	return builder.Model(name).In(namespace).Simulated(v1alpha1.Simulation{}).Obj()
}

// newTool returns a Tool with a schema for its input.
func newTool(namespace, name string) *v1alpha1.Tool {
	tool := builder.ClientTool(name).In(namespace).Obj()
	tool.Spec.InputSchema = &v1alpha1.JSON{Raw: []byte(`{"type":"object"}`)}
	return tool
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
		suite.Create(ctx, direct, o)
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
