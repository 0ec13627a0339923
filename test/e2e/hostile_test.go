//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

const (
	// hostileTime is how long the hostile tenant goes on.
	hostileTime = 10 * time.Minute
	// goodTurns is how many Turns its neighbour has in that time, one after another.
	goodTurns = 200
)

var _ = Describe("A hostile tenant", Serial, Label(loadLabel, hereLabel), func() {
	It("neither stops its neighbour nor the manager, by all means at once", SpecTimeout(loadLimit), func(ctx SpecContext) {
		server := newModelServer(ctx)
		limitMemory(ctx, "512Mi")
		runManagerWith(ctx, "--egress-allow-cidr="+server.address+"/32")
		before := settled(ctx)

		alone := goodTenant(ctx, 200*time.Second)
		show("alone", alone)

		hostile, full := newStage(ctx, script("Hello.")), newStage(ctx, script("Hello."))
		attack, stop := context.WithCancel(ctx)
		var running sync.WaitGroup
		tally := &tally{seen: map[string]int{}}
		for name, mean := range means(hostile, full, server) {
			running.Go(func() {
				defer GinkgoRecover()
				mean(attack, func(err error) { tally.note(name, err) })
			})
		}
		DeferCleanup(func() {
			stop()
			running.Wait()
		})
		beside := goodTenant(ctx, hostileTime)
		stop()
		running.Wait()
		show("beside the hostile tenant", beside)
		show("what the hostile tenant did", tally)
		peak, err := memoryPeak(before)
		Expect(err).NotTo(HaveOccurred())
		show("memory of the container, peak", fmt.Sprintf("%d MiB of 512 MiB", peak>>20))
		show("shares", sharesOf(managerMetrics(ctx)))
		Expect(settled(ctx)).To(Equal(before), "the manager was started again")
	})
})

// means are what a tenant can do to others with the roles of a namespace's admin, by name. Each goes on until its
// context ends, and reports what the API server said. full is a namespace in which no journal entry may be created.
func means(hostile, full string, server *modelServer) map[string]func(context.Context, func(error)) {
	return map[string]func(context.Context, func(error)){
		"schemas full of patterns": func(ctx context.Context, report func(error)) {
			repeatedly(ctx, 50*time.Millisecond, func(n int) {
				report(patternTool(ctx, hostile, n))
			})
		},
		"responses of models that are too large, too deep or endless": func(ctx context.Context, report func(error)) {
			report(server.offer(ctx, hostile, "giant", "chains", "endless", "drip"))
			repeatedly(ctx, 250*time.Millisecond, func(n int) {
				report(talk(ctx, hostile, fmt.Sprintf("bad-%d", n%64), n, []string{"giant", "chains", "endless", "drip"}[n%4], "Hello"))
			})
		},
		"a thousand Turns that wait for a client": func(ctx context.Context, report func(error)) {
			report(api.Create(ctx, &v1alpha1.Tool{ObjectMeta: named(hostile, "ask"), Spec: v1alpha1.ToolSpec{Description: "Asks.", Client: &v1alpha1.ClientTool{}}}))
			report(simulated(ctx, hostile, "asking", script("", calls{{Name: "ask"}})))
			upTo(ctx, 1000, func(n int) { report(talk(ctx, hostile, fmt.Sprintf("wait-%d", n), n, "asking", "Hello", "ask")) })
		},
		"256 models that take an hour": func(ctx context.Context, report func(error)) {
			report(simulated(ctx, hostile, "slow", slow(time.Hour, script("late"))))
			upTo(ctx, 256, func(n int) { report(talk(ctx, hostile, fmt.Sprintf("slow-%d", n), n, "slow", "Hello")) })
		},
		"a quota on journal entries": func(ctx context.Context, report func(error)) {
			report(api.Create(ctx, &corev1.ResourceQuota{
				ObjectMeta: named(full, "none"),
				Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/journalentries.capstan.dev": resource.MustParse("0")}},
			}))
			upTo(ctx, 256, func(n int) { report(talk(ctx, full, fmt.Sprintf("full-%d", n), n, "simulated", "Hello")) })
		},
		"conversations of 15 MiB": func(ctx context.Context, report func(error)) {
			report(server.offer(ctx, hostile, "patient"))
			repeatedly(ctx, 500*time.Millisecond, func(n int) { report(showImage(ctx, hostile, fmt.Sprintf("large-%d", n%5), n)) })
		},
		"Turns that loop": func(ctx context.Context, report func(error)) {
			report(simulated(ctx, hostile, "looping", v1alpha1.Simulation{ToolCalls: &v1alpha1.SimulatedToolCalls{Fixed: calls{{Name: "missing"}}}}))
			repeatedly(ctx, 500*time.Millisecond, func(n int) {
				report(talk(ctx, hostile, fmt.Sprintf("loop-%d", n%200), n, "looping", "Hello"))
			})
		},
	}
}

// upTo does something for the numbers below a limit, and then waits for the end.
func upTo(ctx context.Context, limit int, do func(int)) {
	for n := 0; n < limit && ctx.Err() == nil; n++ {
		do(n)
	}
	<-ctx.Done()
}

// repeatedly does something at a pace, with a number that grows, until the context ends.
func repeatedly(ctx context.Context, pace time.Duration, do func(int)) {
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			do(n)
		}
	}
}

// patternTool writes one of 50 Tools, whose schema is another one each time: by turns more than is allowed, and as much
// as is.
func patternTool(ctx context.Context, namespace string, n int) error {
	count, alternatives := 420, 110
	if n%2 == 1 {
		count, alternatives = 60, 100
	}
	properties := make([]string, count)
	for i := range properties {
		properties[i] = fmt.Sprintf(`"p%d":{"type":"string","pattern":"(?:a|b%d|001){%d}"}`, i, n, alternatives)
	}
	tool := &v1alpha1.Tool{ObjectMeta: named(namespace, fmt.Sprintf("patterns-%d", n%50))}
	err := api.Get(ctx, keyOf(tool), tool)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	tool.Spec = v1alpha1.ToolSpec{
		Description: "Takes much.", Client: &v1alpha1.ClientTool{},
		InputSchema: &v1alpha1.JSON{Raw: []byte(`{"type":"object","properties":{` + strings.Join(properties, ",") + `}}`)},
	}
	if err != nil {
		return api.Create(ctx, tool)
	}
	return api.Update(ctx, tool)
}

// simulated creates a simulated Model.
func simulated(ctx context.Context, namespace, name string, script v1alpha1.Simulation) error {
	return api.Create(ctx, &v1alpha1.Model{
		ObjectMeta: named(namespace, name), Spec: v1alpha1.ModelSpec{Provider: v1alpha1.ProviderSimulated, Simulation: &script},
	})
}

// talk creates a Turn in a Session, which it creates with the Model and the Tools unless it is there.
func talk(ctx context.Context, namespace, session string, n int, model, text string, tools ...string) error {
	if err := newTalk(ctx, namespace, session, model, tools...); err != nil {
		return err
	}
	turn := newTurn(namespace, fmt.Sprintf("%s-%d", session, n), text)
	turn.Spec.SessionRef.Name = session
	return api.Create(ctx, turn)
}

func newTalk(ctx context.Context, namespace, session, model string, tools ...string) error {
	of := &v1alpha1.Session{ObjectMeta: named(namespace, session), Spec: v1alpha1.SessionSpec{
		HarnessRef:  v1alpha1.LocalReference{Name: "base"},
		ConfigLayer: v1alpha1.ConfigLayer{ModelRef: &v1alpha1.LocalReference{Name: model}, MaxIterations: new(int32(10_000))},
	}}
	for _, tool := range tools {
		of.Spec.Tools = append(of.Spec.Tools, v1alpha1.LocalReference{Name: tool})
	}
	return client.IgnoreAlreadyExists(api.Create(ctx, of))
}

// showImage creates a Turn with an image of almost a mebibyte, which stays in the conversation. The journal holds
// fifteen of them.
func showImage(ctx context.Context, namespace, session string, n int) error {
	if err := newTalk(ctx, namespace, session, "patient"); err != nil {
		return err
	}
	turn := newTurn(namespace, fmt.Sprintf("%s-%d", session, n), "")
	turn.Spec.SessionRef.Name = session
	turn.Spec.Message = &v1alpha1.TurnMessage{Content: []v1alpha1.MessagePart{{
		Image: &v1alpha1.MessageImage{MediaType: v1alpha1.ImagePNG, Data: strings.Repeat("iVBO", 1000<<10/4)},
	}}}
	return api.Create(ctx, turn)
}

// tally counts what the API server said to a tenant.
type tally struct {
	mu   sync.Mutex
	seen map[string]int
}

func (t *tally) note(name string, err error) {
	said := "accepted"
	switch {
	case err == nil:
	case apierrors.ReasonForError(err) != metav1.StatusReasonUnknown:
		said = string(apierrors.ReasonForError(err))
	default:
		said = "no answer"
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen[name+": "+said]++
}

// String has one line for each.
func (t *tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	for said, count := range t.seen {
		lines = append(lines, fmt.Sprintf("%s: %d", said, count))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// goodTenant sends plain Turns within a time, each in a Session of its own, expects that all succeed, and returns how
// long they took and, beside that, a ConfigMap that is created and read back by a watch.
func goodTenant(ctx context.Context, within time.Duration) string {
	GinkgoHelper()
	namespace := newStage(ctx, script("the answer"))
	ended := endsOf(ctx, namespace)
	began := make([]time.Time, goodTurns)
	var probes []time.Duration
	ticker := time.NewTicker(within / goodTurns)
	defer ticker.Stop()
	for n := range goodTurns {
		session := fmt.Sprintf("s%d", n)
		create(ctx, &v1alpha1.Session{ObjectMeta: named(namespace, session), Spec: v1alpha1.SessionSpec{HarnessRef: v1alpha1.LocalReference{Name: "base"}}})
		probes = append(probes, probe(ctx, namespace, n))
		turn := newTurn(namespace, session, "Please.")
		turn.Spec.SessionRef.Name = session
		began[n] = time.Now()
		create(ctx, turn)
		<-ticker.C
	}
	Eventually(ctx, ended.count).WithTimeout(hostileTime).WithPolling(interval).Should(Equal(goodTurns))
	took := make([]time.Duration, goodTurns)
	for n := range took {
		took[n] = ended.at(fmt.Sprintf("s%d", n)).Sub(began[n])
	}
	counts, err := finishedIn(ctx, []string{namespace})
	Expect(err).NotTo(HaveOccurred())
	Expect(counts).To(HaveKeyWithValue(namespace, goodTurns))
	return fmt.Sprintf("a Turn %s; a ConfigMap, written and read, %s", quantiles(took), quantiles(probes))
}

// quantiles describes durations.
func quantiles(of []time.Duration) string {
	slices.Sort(of)
	at := func(percent int) time.Duration {
		return of[min(len(of)*percent/100, len(of)-1)].Round(time.Millisecond)
	}
	return fmt.Sprintf("p50 %s, p99 %s, at most %s", at(50), at(99), of[len(of)-1].Round(time.Millisecond))
}

// probe is how long the API server takes to write an object that is not ours and to read it.
func probe(ctx context.Context, namespace string, n int) time.Duration {
	GinkgoHelper()
	began := time.Now()
	object := &corev1.ConfigMap{ObjectMeta: named(namespace, fmt.Sprintf("probe-%d", n))}
	create(ctx, object)
	Expect(api.Get(ctx, keyOf(object), object)).To(Succeed())
	return time.Since(began)
}

// ends are the moments at which a watch showed that Turns have ended, by name.
type ends struct {
	mu sync.Mutex
	of map[string]time.Time
}

// endsOf watches the Turns of a namespace until the end of the spec.
func endsOf(ctx context.Context, namespace string) *ends {
	GinkgoHelper()
	e := &ends{of: map[string]time.Time{}}
	informer := cache.NewSharedInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
			list := &v1alpha1.TurnList{}
			return list, api.List(ctx, list, client.InNamespace(namespace))
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return api.Watch(ctx, &v1alpha1.TurnList{}, client.InNamespace(namespace), &client.ListOptions{Raw: &options})
		},
	}, &v1alpha1.Turn{}, 0)
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, object any) { e.see(object) }})
	Expect(err).NotTo(HaveOccurred())
	stop := make(chan struct{})
	go informer.Run(stop)
	DeferCleanup(func() { close(stop) })
	Expect(cache.WaitForCacheSync(ctx.Done(), informer.HasSynced)).To(BeTrue())
	return e
}

func (e *ends) see(object any) {
	turn, ok := object.(*v1alpha1.Turn)
	if !ok || !meta.IsStatusConditionTrue(turn.Status.Conditions, v1alpha1.ConditionFinished) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, known := e.of[turn.Name]; !known {
		e.of[turn.Name] = time.Now()
	}
}

func (e *ends) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.of)
}

func (e *ends) at(name string) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.of[name]
}

// sharesOf are the lines of the manager's metrics about shares.
func sharesOf(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "capstan_share_") || strings.HasPrefix(line, "capstan_turn_slots_") || strings.HasPrefix(line, "go_memstats_heap_inuse") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, "\n")
}

// trust mounts a certificate in the manager and makes it one that its requests trust.
func trust(ctx context.Context, certificate []byte) {
	GinkgoHelper()
	const name = "e2e-trusted"
	trusted := &corev1.ConfigMap{ObjectMeta: named(managerNamespace, name), BinaryData: map[string][]byte{"ca.crt": certificate}}
	Expect(client.IgnoreNotFound(api.Delete(ctx, trusted.DeepCopy()))).To(Succeed())
	create(ctx, trusted)
	changeManager(ctx, func(spec *corev1.PodSpec) {
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}},
		}})
		container := managerIn(spec)
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/" + name})
		container.Env = append(container.Env, corev1.EnvVar{Name: "SSL_CERT_FILE", Value: "/" + name + "/ca.crt"})
	})
}

// secretFor creates the Secret with a provider's key in a namespace, and lets the manager read it.
func secretFor(ctx context.Context, namespace, name string) error {
	secret := &corev1.Secret{ObjectMeta: named(namespace, name), StringData: map[string]string{"key": "any"}}
	if err := api.Create(ctx, secret); err != nil {
		return err
	}
	return client.IgnoreAlreadyExists(api.Create(ctx, managerMayReadSecrets(namespace)))
}
