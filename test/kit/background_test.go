package kit_test

import (
	"context"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/capstantest/inprocess"
	"github.com/capstan-dev/capstan/internal/runtime/background"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	journalkubernetes "github.com/capstan-dev/capstan/internal/runtime/journal/kubernetes"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// workshop has a Session whose model starts a tool in the background, and repeats every other message.
const workshop = `
apiVersion: capstan.dev/v1alpha1
kind: Tool
metadata: {name: forge}
spec: {description: Forges., job: {image: example.org/forge:1, command: [/forge], background: Allow}}
---
apiVersion: capstan.dev/v1alpha1
kind: Tool
metadata: {name: direct}
spec: {description: Forges while one waits., job: {image: example.org/forge:1, command: [/forge]}}
---
apiVersion: capstan.dev/v1alpha1
kind: Model
metadata: {name: scripted, annotations: {capstan.dev/is-default-model: "true"}}
spec:
  provider: Simulated
  simulation:
    response: {text: "I read: {{input}} {{tool:spawn_background}} {{tool:list_background_tasks}}"}
    toolCalls:
      conditional:
      - contains: What is there to do?
        sequence: [{calls: [{name: spawn_background, arguments: {tool: %TOOL%, arguments: {of: iron}}}]}, {}]
---
apiVersion: capstan.dev/v1alpha1
kind: Harness
metadata: {name: base}
spec:
  systemPrompt: You forge.
  capabilities: [{builtin: background_tasks}]
  tools: [{name: forge}, {name: direct}]
---
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: demo}
spec: {harnessRef: {name: base}}
`

// hexadecimal is the ids and the nonces of tasks, which differ from one run to the next.
var hexadecimal = regexp.MustCompile(`[0-9a-f]{16,}`)

// backgroundCourse is what two Turns have come to: the one that starts a task, and the one that delivers its end.
type backgroundCourse struct {
	caller, delivered map[string]any
	spec              v1alpha1.TurnSpec
	messages          []string
}

func backgroundCourseOf(caller, delivered *v1alpha1.Turn, messages []inprocess.Message) backgroundCourse {
	GinkgoHelper()
	c := backgroundCourse{caller: statusOf(caller)}
	if delivered != nil {
		c.delivered, c.spec = statusOf(delivered), *delivered.Spec.DeepCopy()
		c.spec.Input, c.spec.Origin = hexadecimal.ReplaceAllString(c.spec.Input, "ID"), nil
	}
	for _, m := range messages {
		c.messages = append(c.messages, hexadecimal.ReplaceAllString(text(withoutIDs(m)), "ID"))
	}
	for _, status := range []map[string]any{c.caller, c.delivered} {
		for key, value := range status {
			if shown, is := value.(string); is {
				status[key] = hexadecimal.ReplaceAllString(shown, "ID")
			}
		}
		delete(status, "toolCalls") // Previews have the id, and what they show is in the messages.
		delete(status, "summary")
	}
	return c
}

// runnerAfter returns a JobRunner that waits for begun before it runs a tool: the Turn that has started the task has
// ended then, and the end of the task has a Turn of its own.
func runnerAfter(begun <-chan struct{}, run capstantest.JobRunner) capstantest.JobRunner {
	return func(call capstantest.Call) (string, string, int) {
		<-begun
		return run(call)
	}
}

func backgroundInCluster(
	ctx context.Context, namespace, manifests string, run capstantest.JobRunner, starts bool,
) backgroundCourse {
	GinkgoHelper()
	begun := make(chan struct{})
	tools.In(namespace, runnerAfter(begun, run))
	applyScenario(ctx, namespace, manifests)
	Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
	caller, err := kit.Turn(ctx, namespace, "demo-1")()
	Expect(err).NotTo(HaveOccurred())
	close(begun)
	var delivered *v1alpha1.Turn
	if starts {
		name := background.Name(background.ID(caller.UID, "1-0"))
		Eventually(kit.Turn(ctx, namespace, name)).Should(capstantest.HaveSucceeded())
		delivered, err = kit.Turn(ctx, namespace, name)()
		Expect(err).NotTo(HaveOccurred())
	}
	session := &v1alpha1.Session{}
	Expect(kit.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "demo"}, session)).To(Succeed())
	store, err := journalkubernetes.ForConfig(config, nil)
	Expect(err).NotTo(HaveOccurred())
	view, err := journal.New(store, journal.Options{}).View(ctx, turnstate.JournalOf(session), 0)
	Expect(err).NotTo(HaveOccurred())
	return backgroundCourseOf(caller, delivered, view.Messages)
}

func backgroundInThisProcess(
	ctx context.Context, namespace, manifests string, run capstantest.JobRunner, starts bool,
) backgroundCourse {
	GinkgoHelper()
	begun := make(chan struct{})
	runtime, err := inprocess.New(ctx, inprocess.WithNamespace(namespace), inprocess.WithYAML(manifests),
		inprocess.WithTools(runnerAfter(begun, run)))
	Expect(err).NotTo(HaveOccurred())
	caller, err := runtime.RunTurn(ctx, question())
	Expect(err).NotTo(HaveOccurred())
	close(begun)
	var delivered *v1alpha1.Turn
	if starts {
		delivered, err = runtime.AwaitTask(ctx, background.ID(caller.UID, "1-0"))
		Expect(err).NotTo(HaveOccurred())
	}
	messages, err := runtime.Messages(ctx, "demo")
	Expect(err).NotTo(HaveOccurred())
	return backgroundCourseOf(caller, delivered, messages)
}

var _ = Describe("A background task in process", func() {
	// Rules: TOOL-20, TASK-01.
	DescribeTable("has the same messages as with the controllers",
		func(ctx context.Context, tool string, run capstantest.JobRunner, message string) {
			manifests := strings.ReplaceAll(workshop, "%TOOL%", tool)
			namespace := newNamespace(ctx)
			inCluster := backgroundInCluster(ctx, namespace, manifests, run, message != "")
			inProcess := backgroundInThisProcess(ctx, namespace, manifests, run, message != "")
			Expect(inProcess.caller).To(Equal(inCluster.caller))
			Expect(inProcess.delivered).To(Equal(inCluster.delivered))
			Expect(inProcess.spec).To(Equal(inCluster.spec))
			Expect(inProcess.messages).To(Equal(inCluster.messages))
			Expect(inCluster.spec.Input).To(ContainSubstring(message))
		},
		Entry("that succeeds", "forge", capstantest.JobRunner(func(call capstantest.Call) (string, string, int) {
			return "forged " + call.Arguments, "", 0
		}), "has ended: succeeded"),
		Entry("that fails", "forge", capstantest.JobRunner(func(capstantest.Call) (string, string, int) {
			return "half", "no fire", 7
		}), "has ended: failed"),
		Entry("with a long result", "forge", capstantest.JobRunner(func(capstantest.Call) (string, string, int) {
			return strings.Repeat("a line of the forge\n", 3_000), "", 0
		}), "of which these are the first"),
		Entry("that is forbidden", "direct", capstantest.JobRunner(func(capstantest.Call) (string, string, int) {
			return "", "it must not run", 1
		}), ""),
	)
})
