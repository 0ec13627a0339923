//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"iter"
	"os"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/clientcmd"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
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

// events are those of the Session demo until a Turn has ended, over a port that is forwarded to a pod of the manager.
func events(ctx context.Context, namespace string) iter.Seq[stream.Event] {
	GinkgoHelper()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	Expect(err).NotTo(HaveOccurred())
	client, err := streamclient.New(config, managerNamespace)
	Expect(err).NotTo(HaveOccurred())
	return func(yield func(stream.Event) bool) {
		for e, err := range client.Follow(ctx, stream.Session{Namespace: namespace, Name: "demo"}, 0) {
			Expect(err).NotTo(HaveOccurred())
			if !yield(e) || e.Type == stream.TypeSessionIdled {
				return
			}
		}
	}
}

// follow follows the Session demo until a Turn has ended. Each text is passed to shown.
func follow(ctx context.Context, namespace string, shown func(text string)) (seen followed) {
	GinkgoHelper()
	text := ""
	for e := range events(ctx, namespace) {
		if e.Sequence > 0 {
			seen.ids = append(seen.ids, e.ID)
			Expect(e.Sequence).To(BeEquivalentTo(len(seen.ids)))
		}
		if e.Type != stream.TypeOutputMessageDelta {
			continue
		}
		data, err := stream.Decode[stream.OutputMessageDelta](e)
		Expect(err).NotTo(HaveOccurred())
		if data.Offset == 0 && text != "" {
			seen.again++
		}
		text = text[:data.Offset] + data.Text
		seen.deltas++
		shown(text)
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

// Rules: CTX-04, TOOL-11.
var _ = Describe("The event stream of a Session whose tool runs", func() {
	// The tool writes for longer than the spec may take: what comes has come while it ran, however late the follower is.
	It("has what the tool writes to stderr while it runs", SpecTimeout(specLimit), func(ctx SpecContext) {
		namespace := newStage(ctx, builder.Script("{{tool:work}}", calls{call("work", arguments{"to": 600})}),
			toolbox("work", "count", v1alpha1.SideEffectPure))
		asked := ask(ctx, namespace, "demo-1")
		var deltas []string
		text, ended := "", false
		for e := range events(ctx, namespace) {
			switch e.Type {
			case stream.TypeToolOutputDelta:
				data, err := stream.Decode[stream.ToolOutputDelta](e)
				Expect(err).NotTo(HaveOccurred())
				Expect(ended).To(BeFalse(), "%q after the result of the call", data.Delta)
				Expect(data).To(And(HaveField("ToolName", "work"), HaveField("Stream", stream.StreamStderr),
					HaveField("Offset", BeEquivalentTo(len(text)))))
				text += data.Delta
				deltas = append(deltas, data.Delta)
				if len(deltas) == 3 {
					cancel(ctx, asked)
				}
			case stream.TypeToolCompleted:
				ended = true
			}
		}
		show("deltas", strings.Join(deltas, ""))
		Expect(ended).To(BeTrue())
		Expect(len(deltas)).To(BeNumerically(">=", 3))
		var all strings.Builder
		for i := range 600 {
			fmt.Fprintf(&all, "%d of 600\n", i+1)
		}
		Expect(all.String()).To(HavePrefix(text))
		Eventually(ctx, turn(namespace, "demo-1")).Should(capstantest.HaveFailed(v1alpha1.ReasonCancelled))
	})
})

var _ = Describe("The event stream of a Session", alone, func() {
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
		replicated(ctx, settled(ctx))
		namespace := newStage(ctx, builder.Script("Hello."))
		answered(ctx, namespace, "demo-1")
		// Each connection goes to one of the two pods by chance.
		for range 12 {
			seen := follow(ctx, namespace, func(string) {})
			Expect(seen.ids).To(Equal(recordedEvents(ctx, namespace)))
		}
	})
})
