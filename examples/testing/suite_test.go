// Package agents tests the manifests of a shop's support agent with the real controllers of Capstan, without a cluster
// and without a model.
package agents

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	applyv1alpha1 "github.com/capstan-dev/capstan/api/applyconfiguration/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
)

func TestAgents(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Agents")
}

var (
	kit   *capstantest.Kit
	clock = capstantest.NewClock(time.Date(2030, 3, 1, 9, 0, 0, 0, time.UTC))
)

var _ = BeforeSuite(func() {
	log.SetLogger(GinkgoLogr)
	SetDefaultEventuallyTimeout(20 * time.Second)
	environment := &envtest.Environment{}
	config, err := environment.Start()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(environment.Stop)
	kit, err = capstantest.Start(context.Background(), config, capstantest.Options{Clock: clock, Jobs: shop})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(kit.Stop)
})

// shop is what the tools' containers print.
func shop(call capstantest.Call) (stdout, stderr string, exit int) {
	switch call.Tool {
	case "find-order":
		return "1815, a teapot, 40 euros", "", 0
	case "refund":
		return "paid", "", 0
	default:
		return "", "there is no such tool", 1
	}
}

// ask applies the agent in a namespace of its own and sends it a message. The Turn is called question.
func ask(ctx context.Context, message string) (namespace string) {
	GinkgoHelper()
	home := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "shop-"}}
	Expect(kit.Client.Create(ctx, home)).To(Succeed())
	Expect(kit.Apply(ctx, home.Name, "manifests", "testdata")).To(Succeed())
	question := applyv1alpha1.Turn("question", home.Name).WithSpec(applyv1alpha1.TurnSpec().
		WithSessionRef(applyv1alpha1.LocalReference().WithName("ada")).
		WithInput(message))
	Expect(kit.Client.Apply(ctx, question, owner)).To(Succeed())
	return home.Name
}
