//go:build e2e

package e2e_test

import (
	"context"
	"os"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/streamclient"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// followed is what a follower has seen of a Turn.
type followed struct {
	ids    []string
	deltas int
	// again is how often the text of a response began anew.
	again int
}

// follow follows the Session demo until a Turn has ended, over a port that is forwarded to a pod of the manager. Each
// text is passed to shown.
func follow(ctx context.Context, namespace string, shown func(text string)) (seen followed) {
	GinkgoHelper()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	Expect(err).NotTo(HaveOccurred())
	client, err := streamclient.New(config, managerNamespace)
	Expect(err).NotTo(HaveOccurred())
	text := ""
	for e, err := range client.Follow(ctx, stream.Session{Namespace: namespace, Name: "demo"}, 0) {
		Expect(err).NotTo(HaveOccurred())
		if e.Sequence > 0 {
			seen.ids = append(seen.ids, e.ID)
			Expect(e.Sequence).To(BeEquivalentTo(len(seen.ids)))
		}
		switch e.Type {
		case stream.TypeOutputMessageDelta:
			data, err := stream.Decode[stream.OutputMessageDelta](e)
			Expect(err).NotTo(HaveOccurred())
			if data.Offset == 0 && text != "" {
				seen.again++
			}
			text = text[:data.Offset] + data.Text
			seen.deltas++
			shown(text)
		case stream.TypeSessionIdled:
			return seen
		}
	}
	return seen
}

// recordedEvents are the ids of the events in the journal of a namespace with one Session.
func recordedEvents(ctx context.Context, namespace string) (ids []string) {
	GinkgoHelper()
	for _, entry := range journal(ctx, namespace) {
		if entry.Final {
			for _, e := range entry.Events {
				ids = append(ids, e.ID)
			}
		}
	}
	return ids
}

// spoken is a model that says so many words within a time.
func spoken(words int, within time.Duration) v1alpha1.Simulation {
	return slow(within, builder.Script(strings.TrimSpace(strings.Repeat("word ", words))))
}

var _ = Describe("The event stream of a Session", Serial, func() {
	// Rules: LLM-04, EVT-02.
	It("goes on where it was when the manager is killed in mid sentence", Label(hereLabel), SpecTimeout(crashLimit),
		func(ctx SpecContext) {
			manager := settled(ctx)
			strike, survived := killed(ctx, manager)
			namespace := newStage(ctx, spoken(40, 4*time.Second))
			ask(ctx, namespace, "demo-1")
			struck := false
			seen := follow(ctx, namespace, func(text string) {
				if !struck && len(text) > 50 {
					struck = true
					Expect(strike()).To(Succeed())
				}
			})
			Expect(struck).To(BeTrue())
			Expect(survived(ctx)).To(Succeed())
			Expect(seen.again).To(Equal(1))
			Expect(seen.deltas).To(BeNumerically(">", 10))
			Expect(seen.ids).To(Equal(recordedEvents(ctx, namespace)))
			succeeded(ctx, namespace, "demo-1")
		})

	It("is served through a replica that does not lead", SpecTimeout(crashLimit), func(ctx SpecContext) {
		settled(ctx)
		replicas := func(ctx context.Context, n int32) {
			GinkgoHelper()
			deployment := &appsv1.Deployment{}
			deployment.Namespace, deployment.Name = managerNamespace, managerDeployment
			Expect(api.Get(ctx, client.ObjectKeyFromObject(deployment), deployment)).To(Succeed())
			base := deployment.DeepCopy()
			deployment.Spec.Replicas = ptr.To(n)
			Expect(api.Patch(ctx, deployment, client.MergeFrom(base))).To(Succeed())
			Eventually(ctx, func(ctx context.Context) (int32, error) {
				err := api.Get(ctx, client.ObjectKeyFromObject(deployment), deployment)
				return deployment.Status.AvailableReplicas, err
			}).Should(Equal(n))
		}
		replicas(ctx, 2)
		DeferCleanup(func(ctx SpecContext) {
			replicas(ctx, 1)
			settled(ctx)
		}, NodeTimeout(crashLimit))
		namespace := newStage(ctx, builder.Script("Hello."))
		answered(ctx, namespace, "demo-1")
		// Each connection goes to one of the two pods by chance.
		for range 12 {
			seen := follow(ctx, namespace, func(string) {})
			Expect(seen.ids).To(Equal(recordedEvents(ctx, namespace)))
		}
	})
})
