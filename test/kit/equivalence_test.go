package kit_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/capstantest/inprocess"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	runtimeinprocess "github.com/capstan-dev/capstan/internal/runtime/inprocess"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	journalkubernetes "github.com/capstan-dev/capstan/internal/runtime/journal/kubernetes"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// archives are functions by system prompt: the next model call with that prompt runs its function, once.
var archives = &hooks{of: map[string]func(){}}

type hooks struct {
	mu sync.Mutex
	of map[string]func()
}

func (h *hooks) on(prompt string, do func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.of[prompt] = do
}

func (h *hooks) asked(system string) {
	h.mu.Lock()
	var found func()
	for prompt, do := range h.of {
		if strings.HasPrefix(system, prompt) {
			found = do
			delete(h.of, prompt)
		}
	}
	h.mu.Unlock()
	if found != nil {
		found()
	}
}

// question is the Turn that every scenario runs.
func question() *v1alpha1.Turn {
	return builder.Turn("demo-1").Input("What is there to do?").Obj()
}

// archived is the Harness of a world with the lifecycle Archived.
func archived(harness *v1alpha1.Harness) *v1alpha1.Harness {
	changed := harness.DeepCopy()
	changed.Spec.Lifecycle = v1alpha1.LifecycleArchived
	return changed
}

var _ = Describe("A Turn in process", func() {
	for name, s := range scenarios {
		// Rules: SM-05.
		It("has the same events as with the controllers: "+name, func(ctx context.Context) {
			prompt := "Scenario: " + name + "."
			namespace := newNamespace(ctx)
			inCluster := inCluster(ctx, s, prompt, namespace)
			inProcess := inThisProcess(ctx, s, prompt, namespace)
			Expect(inProcess.rests).To(Equal(inCluster.rests))
			Expect(inProcess.status).To(Equal(inCluster.status))
			Expect(inProcess.types).To(Equal(inCluster.types))
			Expect(inProcess.data).To(Equal(inCluster.data))
			Expect(inProcess.messages).To(Equal(inCluster.messages))
			Expect(inProcess.hooks).To(Equal(inCluster.hooks))
			Expect(inProcess.spans).To(Equal(inCluster.spans))
			Expect(inCluster.spans).NotTo(BeEmpty())
			Expect(inCluster.status["succeeded"]).To(HaveSuffix(" " + s.ends))
		})
	}
})

var _ = Describe("A Session in process", func() {
	// Rules: HOOK-01, HOOK-15.
	It("has the same hooks at its start and its end as with the controllers", func(ctx context.Context) {
		manifests := scenario{model: script(), session: lively}.yaml("Scenario: a life.")
		namespace := newNamespace(ctx)
		applyScenario(ctx, namespace, manifests)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		session := &v1alpha1.Session{}
		Expect(kit.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "demo"}, session)).To(Succeed())

		runtime, err := inprocess.New(ctx, inprocess.WithNamespace(namespace), inprocess.WithYAML(manifests))
		Expect(err).NotTo(HaveOccurred())
		turn, err := runtime.RunTurn(ctx, question())
		Expect(err).NotTo(HaveOccurred())
		Expect(turn.Status.Phase).To(Equal(v1alpha1.TurnPhaseSucceeded))
		inProcess, inCluster := runtime.SessionHooks("demo"), session.Status.Hooks
		Expect(inCluster.Start).To(HaveLen(2))
		Expect(inProcess.Start).To(Equal(inCluster.Start))
		Expect(inCluster.End).To(HaveLen(1))
		Expect(inProcess.End).To(Equal(inCluster.End))
		Expect(inProcess.StartedAt.IsZero()).To(Equal(inCluster.StartedAt.IsZero()))
		ended, err := runtime.EndSession(ctx, "demo")
		Expect(err).NotTo(HaveOccurred())
		Expect(ended).To(ConsistOf(HaveField("Reason", "deleted")))
	})
})

// applyScenario applies the manifests of a scenario and asks the question.
func applyScenario(ctx context.Context, namespace, manifests string) {
	GinkgoHelper()
	applyManifests(ctx, namespace, manifests)
	asked := question()
	asked.Namespace = namespace
	Expect(kit.Client.Create(ctx, asked)).To(Succeed())
}

func applyManifests(ctx context.Context, namespace, manifests string) {
	GinkgoHelper()
	file := filepath.Join(GinkgoT().TempDir(), "scenario.yaml")
	Expect(os.WriteFile(file, []byte(manifests), 0o600)).To(Succeed())
	Expect(kit.Apply(ctx, namespace, file)).To(Succeed())
}

// course is the recorded result of a Turn, without ids and times.
type course struct {
	// rests are the statuses while the Turn waited for others, status is the last one.
	rests          []map[string]any
	status         map[string]any
	types          []string
	data, messages []string
	// hooks are those that have changed something or have failed.
	hooks []string
	// spans are those of the Turn.
	spans []string
}

// goThrough does what others do in a scenario, and returns the statuses of the Turn before. begun is closed when a tool
// has started.
func goThrough(ctx context.Context, s scenario, w world, begun <-chan struct{}) []map[string]any {
	GinkgoHelper()
	if s.during != nil {
		Eventually(ctx, begun).Should(BeClosed())
		s.during(ctx, w)
	}
	var rests []map[string]any
	for _, then := range s.then {
		turn := w.rest(ctx)
		Expect(waits(turn)).To(BeTrue(), "phase %s", turn.Status.Phase)
		rests = append(rests, statusOf(turn))
		then(ctx, w)
	}
	return rests
}

// waits reports whether a Turn waits for others.
func waits(turn *v1alpha1.Turn) bool {
	return turn.Status.Phase == v1alpha1.TurnPhaseWaitingForToolResults ||
		turnstate.WaitsForReference(&turn.Status.TurnProgress)
}

// starting makes the scenario's tools a JobRunner, and returns a channel that is closed when the first has started.
func (s scenario) starting() (capstantest.JobRunner, <-chan struct{}) {
	begun, once := make(chan struct{}), sync.Once{}
	return func(call capstantest.Call) (string, string, int) {
		if s.tools == nil {
			return "", "nothing is to run here", 1
		}
		return s.tools(call, func() { once.Do(func() { close(begun) }) })
	}, begun
}

// cluster is a namespace that the kit's controllers work in.
type cluster struct {
	namespace string
	// answered counts the results and decisions, because the status shows one a moment after the journal has it.
	answered int
}

func inCluster(ctx context.Context, s scenario, prompt, namespace string) course {
	GinkgoHelper()
	c := &cluster{namespace: namespace}
	run, begun := s.starting()
	tools.In(c.namespace, run)
	applyManifests(ctx, c.namespace, s.yaml(prompt))
	if s.archive {
		archives.on(prompt, func() {
			defer GinkgoRecover()
			harness := &v1alpha1.Harness{}
			Expect(kit.Client.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: "base"}, harness)).To(Succeed())
			// A patch, because its controller may write its status meanwhile.
			Expect(kit.Client.Patch(ctx, archived(harness), client.MergeFrom(harness))).To(Succeed())
		})
	}
	asked := question()
	asked.Namespace = c.namespace
	Expect(kit.Client.Create(ctx, asked)).To(Succeed())
	rests := goThrough(ctx, s, c, begun)
	var ended *v1alpha1.Turn
	Eventually(
		ctx,
		func() string { ended = c.read(ctx); return string(ended.Status.Phase) },
	).Should(BeElementOf("Succeeded", "Failed", "Cancelled"))

	session := &v1alpha1.Session{}
	Expect(kit.Client.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: "demo"}, session)).To(Succeed())
	store, err := journalkubernetes.ForConfig(config, nil)
	Expect(err).NotTo(HaveOccurred())
	log := journal.New(store, journal.Options{})
	steps, err := runtimeinprocess.Steps(ctx, log, store, turnstate.JournalOf(session))
	Expect(err).NotTo(HaveOccurred())
	var events []event.Event
	for _, step := range steps {
		events = append(events, step.Events...)
	}
	view, err := log.View(ctx, turnstate.JournalOf(session), 0)
	Expect(err).NotTo(HaveOccurred())
	reached := courseOf(rests, ended, events, view.Messages, hooksOf(ctx, log, steps, turnstate.JournalOf(session)))
	root := ContainElement(HavePrefix("/invoke_agent "))
	Eventually(func() []string { return spans.of(string(ended.UID)) }).Should(root)
	reached.spans = spans.of(string(ended.UID))
	return reached
}

func (c *cluster) read(ctx context.Context) *v1alpha1.Turn {
	GinkgoHelper()
	turn, err := kit.Turn(ctx, c.namespace, "demo-1")()
	Expect(err).NotTo(HaveOccurred())
	return turn
}

func (c *cluster) rest(ctx context.Context) *v1alpha1.Turn {
	GinkgoHelper()
	var turn *v1alpha1.Turn
	Eventually(ctx, func() bool {
		turn = c.read(ctx)
		settled := 0
		for _, call := range turn.Status.ToolCalls {
			if call.State.Settled() && call.Executor == v1alpha1.ToolExecutorClient {
				settled++
			}
		}
		return waits(turn) && settled >= c.answered
	}).Should(BeTrue())
	return turn
}

func (c *cluster) give(ctx context.Context, call string, spec v1alpha1.ToolResultSpec) {
	GinkgoHelper()
	spec.TurnRef.Name, spec.CallID = "demo-1", call
	result := &v1alpha1.ToolResult{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "demo-1-" + call},
		Spec:       spec,
	}
	Expect(kit.Client.Create(ctx, result)).To(Succeed())
	c.answered++
}

func (c *cluster) answer(ctx context.Context, call, text string) {
	c.give(ctx, call, v1alpha1.ToolResultSpec{Result: &text})
}

func (c *cluster) refuse(ctx context.Context, call, text string) {
	c.give(ctx, call, v1alpha1.ToolResultSpec{Error: &text})
}

func (c *cluster) decide(ctx context.Context, call string, decision v1alpha1.Decision) {
	c.give(ctx, call, capstantest.Decision(c.read(ctx), call, decision, "ann").Spec)
}

func (c *cluster) reject(ctx context.Context, call, reason string) {
	spec := capstantest.Decision(c.read(ctx), call, v1alpha1.DecisionReject, "ann").Spec
	spec.Reason = reason
	c.give(ctx, call, spec)
}

func (c *cluster) connect(ctx context.Context, call string, action v1alpha1.InputAction) {
	turn := c.read(ctx)
	spec := capstantest.Decision(turn, call, "", "ann").Spec
	spec.TurnSubmittedBy, spec.Input = "", &v1alpha1.InputAnswer{ID: "shop", Action: action}
	c.give(ctx, call, spec)
}

func (c *cluster) supply(ctx context.Context) {
	GinkgoHelper()
	Expect(kit.Client.Create(ctx, keySecret(c.namespace))).To(Succeed())
	// The manager may not watch Secrets, and looks for it again after a pause. The pause may begin after the clock has
	// moved, and the clock stands still otherwise.
	Eventually(ctx, func() bool {
		clock.Advance(time.Minute)
		return turnstate.WaitsForReference(&c.read(ctx).Status.TurnProgress)
	}).WithPolling(time.Second).Should(BeFalse())
}

// keySecret is the Secret that the tool of some scenarios needs.
func keySecret(namespace string) *corev1.Secret {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "key"}
	return &corev1.Secret{ObjectMeta: meta, StringData: map[string]string{"token": "Bearer hidden"}}
}

func (c *cluster) cancel(ctx context.Context) {
	GinkgoHelper()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"desiredState":"Cancelled"}}`))
	Expect(kit.Client.Patch(ctx, c.read(ctx), patch)).To(Succeed())
}

// process is a Runtime in this process.
type process struct {
	runtime *inprocess.Runtime
}

func inThisProcess(ctx context.Context, s scenario, prompt, namespace string) course {
	GinkgoHelper()
	run, begun := s.starting()
	p := &process{}
	archiving := sync.Once{}
	store, exported := inprocess.NewMemoryStore(), &spanLog{}
	options := []inprocess.Option{
		inprocess.WithNamespace(namespace),
		inprocess.WithStore(store),
		inprocess.WithYAML(s.yaml(prompt)),
		inprocess.WithTools(run),
		inprocess.WithEgressRoots(shop.roots()),
		inprocess.WithEgressAllow(loopback...),
		inprocess.WithSpans(exported.add),
	}
	if s.archive {
		options = append(options, inprocess.WithPrompts(func(inprocess.Request) {
			archiving.Do(func() {
				defer GinkgoRecover()
				found, err := p.runtime.LoadContext(ctx, "demo")
				Expect(err).NotTo(HaveOccurred())
				Expect(p.runtime.Apply(archived(found.Chain[0]))).To(Succeed())
			})
		}))
	}
	var err error
	p.runtime, err = inprocess.New(ctx, options...)
	Expect(err).NotTo(HaveOccurred())
	going := make(chan error, 1)
	go func() {
		_, err := p.runtime.RunTurn(ctx, question())
		going <- err
	}()
	Eventually(func() *v1alpha1.Turn { return p.runtime.Turn("demo-1") }, time.Second, time.Millisecond).ShouldNot(BeNil())
	rests := goThrough(ctx, s, p, begun)
	Eventually(ctx, going).Should(Receive(BeNil()))
	ended, err := p.runtime.Await(ctx, "demo-1")
	Expect(err).NotTo(HaveOccurred())
	events, err := p.runtime.Events(ctx, "demo")
	Expect(err).NotTo(HaveOccurred())
	messages, err := p.runtime.Messages(ctx, "demo")
	Expect(err).NotTo(HaveOccurred())
	of := journal.Session{Namespace: namespace, Name: "demo", UID: ended.Status.SessionUID}
	log := journal.New(store, journal.Options{})
	steps, err := runtimeinprocess.Steps(ctx, log, store, of)
	Expect(err).NotTo(HaveOccurred())
	reached := courseOf(rests, ended, events, messages, hooksOf(ctx, log, steps, of))
	reached.spans = exported.of(string(ended.UID))
	return reached
}

func (p *process) rest(ctx context.Context) *v1alpha1.Turn {
	GinkgoHelper()
	turn, err := p.runtime.Await(ctx, "demo-1")
	Expect(err).NotTo(HaveOccurred())
	return turn
}

func (p *process) answer(ctx context.Context, call, text string) {
	GinkgoHelper()
	_, err := p.runtime.Answer(ctx, "demo-1", call, text)
	Expect(err).NotTo(HaveOccurred())
}

func (p *process) refuse(ctx context.Context, call, text string) {
	GinkgoHelper()
	_, err := p.runtime.Refuse(ctx, "demo-1", call, text)
	Expect(err).NotTo(HaveOccurred())
}

func (p *process) connect(ctx context.Context, call string, action v1alpha1.InputAction) {
	GinkgoHelper()
	_, err := p.runtime.AnswerInput(ctx, "demo-1", call, v1alpha1.InputAnswer{ID: "shop", Action: action})
	Expect(err).NotTo(HaveOccurred())
}

func (p *process) decide(ctx context.Context, call string, decision v1alpha1.Decision) {
	GinkgoHelper()
	_, err := p.runtime.Decide(ctx, "demo-1", call, decision)
	Expect(err).NotTo(HaveOccurred())
}

func (p *process) reject(ctx context.Context, call, reason string) {
	GinkgoHelper()
	_, err := p.runtime.Reject(ctx, "demo-1", call, reason)
	Expect(err).NotTo(HaveOccurred())
}

func (p *process) supply(context.Context) {
	GinkgoHelper()
	Expect(p.runtime.Apply(keySecret(""))).To(Succeed())
}

func (p *process) cancel(ctx context.Context) {
	GinkgoHelper()
	_, err := p.runtime.Cancel(ctx, "demo-1")
	Expect(err).NotTo(HaveOccurred())
}

// hooksOf are the hooks in the journal, with their outcomes.
func hooksOf(ctx context.Context, log *journal.Log, steps []*journal.Closed, of journal.Session) []string {
	GinkgoHelper()
	var hooks []string
	for _, step := range steps {
		for _, call := range step.Calls {
			hooks = append(hooks, fmt.Sprint("call ", call.ID, " ", call.Hooks))
		}
		end, err := log.Ended(ctx, of, step)
		Expect(err).NotTo(HaveOccurred())
		if end != nil {
			hooks = append(hooks, fmt.Sprint("end ", end.Hooks))
		}
	}
	return hooks
}

// courseOf leaves out what differs from one run to the next.
func courseOf(
	rests []map[string]any, turn *v1alpha1.Turn, events []event.Event, messages []inprocess.Message, hooks []string,
) course {
	GinkgoHelper()
	c := course{rests: rests, status: statusOf(turn), hooks: hooks}
	for _, condition := range turn.Status.Conditions {
		if condition.Type == v1alpha1.ConditionSucceeded {
			c.status["succeeded"] = string(condition.Status) + " " + condition.Reason
		}
	}
	for _, e := range events {
		c.types = append(c.types, e.Type)
		c.data = append(c.data, e.Type+" "+text(withoutIDs(e.Data)))
	}
	for _, m := range messages {
		c.messages = append(c.messages, text(withoutIDs(m)))
	}
	return c
}

// statusOf leaves out of a status what differs from one run to the next.
func statusOf(turn *v1alpha1.Turn) map[string]any {
	GinkgoHelper()
	status, conditions := withoutIDs(turn.Status), map[string]string{}
	for _, condition := range turn.Status.Conditions {
		conditions[condition.Type] = string(condition.Status) + " " + condition.Reason + ": " + condition.Message
	}
	status["conditions"] = conditions
	return status
}

// digests are those of calls in messages.
var digests = regexp.MustCompile(`callDigest [0-9a-f]{64}`)

func withoutIDs(of any) map[string]any {
	GinkgoHelper()
	raw, err := json.Marshal(of)
	Expect(err).NotTo(HaveOccurred())
	var content map[string]any
	Expect(json.Unmarshal(digests.ReplaceAll(raw, nil), &content)).To(Succeed())
	strip(content)
	return content
}

func text(content map[string]any) string {
	GinkgoHelper()
	raw, err := json.Marshal(content)
	Expect(err).NotTo(HaveOccurred())
	return string(raw)
}
