//go:build e2e

package e2e_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// repository has the files of git: an agent with a tool that runs and one that a person plays, a conversation, and
// its first message.
const repository = `
apiVersion: capstan.dev/v1alpha1
kind: Model
metadata:
  name: simulated
  labels: {app: travel}
  annotations: {capstan.dev/is-default-model: "true"}
spec:
  provider: Simulated
  simulation:
    response: {type: Fixed, text: "It has {{tool:word-count}} words."}
    toolCalls:
      sequence:
      - calls: [{name: word-count, arguments: {text: one two three}}]
      - {}
---
apiVersion: capstan.dev/v1alpha1
kind: Tool
metadata: {name: word-count, labels: {app: travel}}
spec:
  description: Counts the words of a text.
  sideEffect: AtMostOnce
  inputSchema: {type: object, properties: {text: {type: string}}, required: [text]}
  job: {image: "` + toolboxImage + `", imagePullPolicy: IfNotPresent, command: [/toolbox, word-count], timeout: 30s}
---
apiVersion: capstan.dev/v1alpha1
kind: Tool
metadata: {name: ask, labels: {app: travel}}
spec:
  description: Asks the traveller.
  client: {}
---
apiVersion: capstan.dev/v1alpha1
kind: Harness
metadata: {name: base, labels: {app: travel}}
spec:
  systemPrompt: You answer briefly.
  tools: [{name: word-count}, {name: ask}]
---
apiVersion: capstan.dev/v1alpha1
kind: Agent
metadata: {name: helper, labels: {app: travel}}
spec: {systemPrompt: You help.}
---
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: demo, labels: {app: travel}}
spec: {harnessRef: {name: base}, agentRef: {name: helper}}
`

// firstMessage is a Turn of the repository.
const firstMessage = `---
apiVersion: capstan.dev/v1alpha1
kind: Turn
metadata: {name: demo-1, labels: {app: travel}}
spec: {sessionRef: {name: demo}, input: "How many words has this?"}
`

// Reasons of Turns whose name was used before.
const (
	reasonAlreadyRan = "AlreadyRan"
	reasonNameReused = "NameReused"
)

var _ = Describe("A repository in git", func() {
	var namespace string

	// sync applies what is in git, as a GitOps tool would.
	sync := func(ctx context.Context, manifest string, flags ...string) string {
		GinkgoHelper()
		return kubectlWith(ctx, manifest, append([]string{"apply", "--namespace", namespace, "--filename", "-"}, flags...)...)
	}

	BeforeEach(func(ctx SpecContext) { namespace = newNamespace(ctx) }, NodeTimeout(time.Minute))

	DescribeTable("is applied again without a write", func(ctx SpecContext, flags ...string) {
		sync(ctx, repository+firstMessage, flags...)
		succeeded(ctx, namespace, "demo-1")
		expectReady(ctx, namespace)
		before := versions(ctx, namespace)
		Expect(before).To(HaveLen(7))

		sync(ctx, repository+firstMessage, flags...)
		Consistently(ctx, func(ctx context.Context) map[string]string { return versions(ctx, namespace) }).
			WithTimeout(3 * time.Second).Should(Equal(before))
	},
		func(flags ...string) string { return strings.Join(append([]string{"kubectl apply"}, flags...), " ") },
		Entry(nil, SpecTimeout(specLimit)),
		Entry(nil, SpecTimeout(specLimit), "--server-side"),
	)

	It("prunes only the Turn that was removed from it", SpecTimeout(specLimit), func(ctx SpecContext) {
		prune := []string{"--prune", "--selector", "app=travel"}
		for _, kind := range []string{"Turn", "Session", "Harness", "Agent", "Model", "Tool"} {
			prune = append(prune, "--prune-allowlist", "capstan.dev/v1alpha1/"+kind)
		}
		sync(ctx, repository+firstMessage, prune...)
		succeeded(ctx, namespace, "demo-1")
		expectReady(ctx, namespace)
		kept := versions(ctx, namespace)
		delete(kept, "Turn demo-1")
		answered(ctx, namespace, "by-hand")

		Expect(sync(ctx, repository, prune...)).To(ContainSubstring("turn.capstan.dev/demo-1 pruned"))
		Eventually(ctx, func(ctx context.Context) error { _, err := turn(namespace, "demo-1")(ctx); return err }).
			Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
		Expect(read(ctx, namespace, "by-hand").DeletionTimestamp).To(BeNil())
		left := versions(ctx, namespace)
		for object := range maps.Keys(kept) {
			Expect(left).To(HaveKey(object))
		}
	})

	It("reverts a manual change, and disturbs no running Turn", SpecTimeout(specLimit), func(ctx SpecContext) {
		asking := strings.Replace(repository, "{name: word-count, arguments: {text: one two three}}", "{name: ask}", 1)
		asking = strings.Replace(asking, "{{tool:word-count}}", "{{tool:ask}}", 1)
		sync(ctx, asking+firstMessage)
		Eventually(ctx, turn(namespace, "demo-1")).Should(capstantest.WaitForTools("ask"))
		before := read(ctx, namespace, "demo-1")

		kubectl(
			ctx,
			"patch",
			"tool",
			"ask",
			"--namespace",
			namespace,
			"--type=merge",
			"--patch",
			`{"spec":{"description":"Drifted."}}`,
		)
		Expect(
			sync(ctx, asking+firstMessage),
		).To(And(ContainSubstring("tool.capstan.dev/ask configured"), ContainSubstring("turn.capstan.dev/demo-1 unchanged")))
		tool := &v1alpha1.Tool{}
		Eventually(ctx, func(ctx context.Context) (int64, error) {
			err := api.Get(ctx, types.NamespacedName{Namespace: namespace, Name: "ask"}, tool)
			return tool.Status.ObservedGeneration, err
		}).Should(BeEquivalentTo(3))
		Expect(tool.Spec.Description).To(Equal("Asks the traveller."))

		during := read(ctx, namespace, "demo-1")
		Expect(during.ResourceVersion).To(Equal(before.ResourceVersion))
		Expect(callOf(during, "ask").ToolUID).To(Equal(tool.UID))
		create(ctx, builder.ToolResult("answer", callOf(during, "ask").ID).In(namespace).Result("seven").Obj())
		Expect(succeeded(ctx, namespace, "demo-1").Status.Output).To(Equal("It has seven words."))
	})

	It(
		"does not repeat a deleted Turn that is applied again, and refuses another message with its name",
		SpecTimeout(specLimit),
		func(ctx SpecContext) {
			ran := watchContainers(ctx, namespace)
			sync(ctx, repository+firstMessage)
			first := succeeded(ctx, namespace, "demo-1")
			Eventually(ctx, ran.counts).Should(Equal(map[string]int{"1-0": 1}))

			kubectl(ctx, "delete", "turn", "demo-1", "--namespace", namespace, "--wait")
			sync(ctx, repository+firstMessage)
			again := succeeded(ctx, namespace, "demo-1")
			Expect(again.UID).NotTo(Equal(first.UID))
			Expect(again.Status.Output).To(Equal(first.Status.Output))
			Expect(succeededReason(again)).To(Equal(reasonAlreadyRan))
			Expect(podsOf(ctx, again)).To(BeEmpty(), "the tool must not run a second time")

			kubectl(ctx, "delete", "turn", "demo-1", "--namespace", namespace, "--wait")
			sync(ctx, repository+strings.Replace(firstMessage, "How many words has this?", "And this?", 1))
			Eventually(ctx, turn(namespace, "demo-1")).Should(capstantest.HaveFailed(reasonNameReused))
			Expect(ran.counts()).To(Equal(map[string]int{"1-0": 1}))
		},
	)

	It(
		"starts a new conversation after a Session was deleted and applied again",
		SpecTimeout(specLimit),
		func(ctx SpecContext) {
			sync(ctx, repository+firstMessage)
			first := succeeded(ctx, namespace, "demo-1")
			before := sessionOf(ctx, namespace)

			kubectl(ctx, "delete", "session", "demo", "--namespace", namespace, "--wait")
			Eventually(ctx, func(ctx context.Context) error { _, err := turn(namespace, "demo-1")(ctx); return err }).
				Should(MatchError(apierrors.IsNotFound, "IsNotFound"), "a Turn goes with the Session that it began under")
			Eventually(ctx, func(ctx context.Context) (int, error) {
				var entries v1alpha1.JournalEntryList
				err := api.List(ctx, &entries, client.InNamespace(namespace))
				return len(entries.Items), err
			}).Should(BeZero(), "the log goes with its Session")

			sync(ctx, repository+firstMessage)
			again := succeeded(ctx, namespace, "demo-1")
			Expect(again.UID).NotTo(Equal(first.UID))
			Expect(
				succeededReason(again),
			).To(Equal(string(v1alpha1.StopReasonEndTurn)), "the new conversation has not had this message")
			after := sessionOf(ctx, namespace)
			Expect(after.UID).NotTo(Equal(before.UID))
			Eventually(
				ctx,
				func(ctx context.Context) int64 { return sessionOf(ctx, namespace).Status.Totals.Turns },
			).Should(BeEquivalentTo(1))
		},
	)
})

// expectReady waits until the Session is at rest and all that it names is ready, so that no controller has anything
// left to write.
func expectReady(ctx context.Context, namespace string) {
	GinkgoHelper()
	kubectl(
		ctx,
		"wait",
		"--namespace",
		namespace,
		"--for=condition=Ready",
		"--timeout=60s",
		"--all",
		"models,tools,harnesses,agents,sessions",
	)
	kubectl(ctx, "wait", "--namespace", namespace, "--for=jsonpath={.status.phase}=Idle", "--timeout=60s", "session/demo")
}

// versions are the resourceVersions of what a namespace has of the kinds that users write, by kind and name.
func versions(ctx context.Context, namespace string) map[string]string {
	GinkgoHelper()
	found := map[string]string{}
	for _, kind := range []string{"Model", "Tool", "Harness", "Agent", "Session", "Turn", "ToolResult"} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind + "List"))
		Expect(api.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
		for _, object := range list.Items {
			found[kind+" "+object.GetName()] = object.GetResourceVersion()
		}
	}
	return found
}

func sessionOf(ctx context.Context, namespace string) *v1alpha1.Session {
	GinkgoHelper()
	session := &v1alpha1.Session{}
	Expect(api.Get(ctx, types.NamespacedName{Namespace: namespace, Name: "demo"}, session)).To(Succeed())
	return session
}

// succeededReason is the reason of a Turn's condition Succeeded.
func succeededReason(turn *v1alpha1.Turn) string {
	i := slices.IndexFunc(
		turn.Status.Conditions,
		func(c metav1.Condition) bool { return c.Type == v1alpha1.ConditionSucceeded },
	)
	if i < 0 {
		return ""
	}
	return turn.Status.Conditions[i].Reason
}
