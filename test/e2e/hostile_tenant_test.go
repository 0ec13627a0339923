//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

const (
	// hostileTime is how long the hostile tenant goes on.
	hostileTime = 10 * time.Minute
	// goodTurns is how many Turns its neighbour has in that time, one after another.
	goodTurns = 200
	// shortTime and shortTurns are the same for a single attack.
	shortTime  = time.Minute
	shortTurns = 50
)

var _ = Describe("A hostile tenant", alone, Label(loadLabel, hereLabel), func() {
	It(
		"stops neither other tenants nor the manager with all attacks at once",
		SpecTimeout(loadLimit),
		func(ctx SpecContext) {
			server := newModelServer(ctx, http.HandlerFunc(serveModel))
			beside(ctx, server, "all", hostileTime, goodTurns, func(as client.Client, hostile, full string) map[string]attack {
				return attacks(as, hostile, full, server)
			})
		},
	)

	DescribeTable("stops neither other tenants nor the manager with", func(ctx SpecContext, name string) {
		server := newModelServer(ctx, http.HandlerFunc(serveModel))
		beside(ctx, server, name, shortTime, shortTurns, func(as client.Client, hostile, full string) map[string]attack {
			return map[string]attack{name: attacks(as, hostile, full, server)[name]}
		})
	},
		Entry(nil, patternSchemas, SpecTimeout(loadLimit)),
		Entry(nil, badResponses, SpecTimeout(loadLimit)),
		Entry(nil, waitingTurns, SpecTimeout(loadLimit)),
		Entry(nil, slowModels, SpecTimeout(loadLimit)),
		Entry(nil, journalQuota, SpecTimeout(loadLimit)),
		Entry(nil, largeConversations, SpecTimeout(loadLimit)),
		Entry(nil, loopingTurns, SpecTimeout(loadLimit)),
		Entry(nil, largeConfiguration, SpecTimeout(loadLimit)),
	)

	It(
		"that is deleted with 1,000 finished Turns does not delay other tenants noticeably",
		SpecTimeout(loadLimit),
		func(ctx SpecContext) {
			runManagerWith(ctx, logsWaits)
			waits := waitsOf(ctx)
			gone := thousandFinished(ctx)
			alone := goodTenant(ctx, shortTurns, shortTurns*time.Second)
			show("alone", alone.String()+"\n"+waits.take(alone.namespace))
			Expect(api.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: gone}})).To(Succeed())
			deleted := time.Now()
			meanwhile := goodTenant(ctx, shortTurns, shortTurns*time.Second)
			show("beside the deletion", meanwhile.String()+"\n"+waits.take(meanwhile.namespace))
			Eventually(ctx, func(ctx context.Context) (int, error) { return countOf(ctx, gone, "journalentries") }).
				WithTimeout(4 * manyLimit).Should(BeZero())
			show("the journals were deleted after", time.Since(deleted).Round(time.Millisecond).String())
		},
	)
})

// thousandFinished returns a namespace with 1,000 finished Turns in 10 Sessions.
func thousandFinished(ctx context.Context) string {
	GinkgoHelper()
	const sessions, turns = 10, 1000
	namespace := newStage(ctx, builder.Script("done"))
	for s := range sessions {
		create(ctx, builder.Session(fmt.Sprintf("s%d", s)).In(namespace).Obj())
	}
	each(ctx, turns, func(ctx context.Context, i int) error {
		turn := builder.Turn(fmt.Sprintf("t%d", i)).In(namespace).Input("Please.").Obj()
		turn.Spec.SessionRef.Name = fmt.Sprintf("s%d", i%sessions)
		return api.Create(ctx, turn)
	})
	Eventually(ctx, func(ctx context.Context) (int, error) {
		counts, err := finishedIn(ctx, []string{namespace})
		return counts[namespace], err
	}).WithTimeout(hostileTime).WithPolling(time.Second).Should(Equal(turns))
	return namespace
}

// beside runs a good tenant, first alone and then beside what a hostile one does, with a manager of 512 MiB.
func beside(
	ctx context.Context,
	server *modelServer,
	name string,
	within time.Duration,
	turns int,
	does func(as client.Client, hostile, full string) map[string]attack,
) {
	GinkgoHelper()
	limitMemory(ctx, "512Mi")
	runManagerWith(ctx, "--egress-allow-cidr="+server.address+"/32", logsWaits)
	before := settled(ctx)
	waits := waitsOf(ctx)
	alone := goodTenant(ctx, turns, time.Duration(turns)*time.Second)
	show("alone", alone.String()+"\n"+waits.take(alone.namespace))

	hostile, full := newStage(ctx, builder.Script("Hello.")), newStage(ctx, builder.Script("Hello."))
	create(ctx, &corev1.ResourceQuota{
		ObjectMeta: named(full, "none"),
		Spec: corev1.ResourceQuotaSpec{
			Hard: corev1.ResourceList{"count/journalentries.capstan.dev": resource.MustParse("0")},
		},
	})
	attacked, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	tally := &tally{seen: map[string]int{}}
	for name, start := range does(adminOf(ctx, "hostile", hostile, full), hostile, full) {
		running.Go(func() {
			defer GinkgoRecover()
			start(attacked, func(err error) { tally.note(name, err) })
		})
	}
	DeferCleanup(func() {
		stop()
		running.Wait()
	})
	disturbed := goodTenant(ctx, turns, within)
	stop()
	running.Wait()
	show("beside the hostile tenant: "+name, disturbed.String()+"\n"+waits.take(disturbed.namespace))
	show("requests of the hostile tenant", tally)
	peak, err := memoryPeak(before)
	Expect(err).NotTo(HaveOccurred())
	show("memory of the container, peak", fmt.Sprintf("%d MiB of 512 MiB", peak>>20))
	show("shares", sharesOf(managerMetrics(ctx)))
	Expect(settled(ctx)).To(Equal(before), "the manager was started again")
}

// adminOf returns a client for a user who has the role admin in namespaces, and no other.
func adminOf(ctx context.Context, user string, namespaces ...string) client.Client {
	GinkgoHelper()
	for _, namespace := range namespaces {
		create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: named(namespace, user),
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		})
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	Expect(err).NotTo(HaveOccurred())
	config.QPS = -1
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	as, err := client.New(config, client.Options{Scheme: api.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	return as
}

// attack is what one tenant does to disturb others. It continues until its context ends, and reports the errors of the
// API server.
type attack func(context.Context, func(error))

// The names of the attacks.
const (
	patternSchemas     = "schemas full of patterns"
	badResponses       = "responses of models that are too large, too deep or endless"
	waitingTurns       = "a thousand Turns that wait for a client"
	slowModels         = "256 models that take an hour"
	journalQuota       = "a quota on journal entries"
	largeConversations = "conversations as large as a journal may be"
	loopingTurns       = "Turns that loop"
	largeConfiguration = "Sessions with 200 MiB of prompts and as much of hints"
)

// attacks are those that are possible with the roles of a namespace's admin, by name. full is a namespace in which no
// journal entry may be created.
func attacks(as client.Client, hostile, full string, server *modelServer) map[string]attack {
	return map[string]attack{
		patternSchemas: func(ctx context.Context, report func(error)) {
			repeatedly(ctx, 50*time.Millisecond, func(n int) {
				report(patternTool(ctx, as, hostile, n))
			})
		},
		badResponses: func(ctx context.Context, report func(error)) {
			report(server.offer(ctx, as, hostile, "giant", "chains", "endless", "drip"))
			repeatedly(ctx, 250*time.Millisecond, func(n int) {
				report(
					talk(
						ctx,
						as,
						hostile,
						fmt.Sprintf("bad-%d", n%64),
						n,
						[]string{"giant", "chains", "endless", "drip"}[n%4],
						"Hello",
					),
				)
			})
		},
		waitingTurns: func(ctx context.Context, report func(error)) {
			report(
				as.Create(
					ctx,
					builder.ClientTool("ask").In(hostile).Obj(),
				),
			)
			report(simulated(ctx, as, hostile, "asking", builder.Script("", calls{{Name: "ask"}})))
			upTo(
				ctx,
				1000,
				func(n int) { report(talk(ctx, as, hostile, fmt.Sprintf("wait-%d", n), n, "asking", "Hello", "ask")) },
			)
		},
		slowModels: func(ctx context.Context, report func(error)) {
			report(simulated(ctx, as, hostile, "slow", slow(time.Hour, builder.Script("late"))))
			upTo(ctx, 256, func(n int) { report(talk(ctx, as, hostile, fmt.Sprintf("slow-%d", n), n, "slow", "Hello")) })
		},
		journalQuota: func(ctx context.Context, report func(error)) {
			upTo(ctx, 256, func(n int) { report(talk(ctx, as, full, fmt.Sprintf("full-%d", n), n, "simulated", "Hello")) })
		},
		largeConversations: func(ctx context.Context, report func(error)) {
			report(server.offer(ctx, as, hostile, "patient"))
			repeatedly(
				ctx,
				500*time.Millisecond,
				func(n int) { report(showImage(ctx, as, hostile, fmt.Sprintf("large-%d", n%5), n)) },
			)
		},
		loopingTurns: func(ctx context.Context, report func(error)) {
			report(
				simulated(
					ctx,
					as,
					hostile,
					"looping",
					v1alpha1.Simulation{ToolCalls: &v1alpha1.SimulatedToolCalls{Fixed: calls{{Name: "missing"}}}},
				),
			)
			repeatedly(ctx, 500*time.Millisecond, func(n int) {
				report(talk(ctx, as, hostile, fmt.Sprintf("loop-%d", n%200), n, "looping", "Hello"))
			})
		},
		largeConfiguration: func(ctx context.Context, report func(error)) {
			upTo(ctx, 800, func(n int) { report(as.Create(ctx, largeSession(hostile, fmt.Sprintf("prompt-%d", n)))) })
		},
	}
}

// largeSession is a Session whose fields are as long as admission lets them be, or a quarter of a mebibyte.
func largeSession(namespace, name string) *v1alpha1.Session {
	const quarter = 256 << 10
	hosts := make([]v1alpha1.NetworkPattern, 64)
	for i := range hosts {
		hosts[i] = v1alpha1.NetworkPattern(fmt.Sprintf("https://h%d.example.com/%s", i, strings.Repeat("x", 200)))
	}
	return &v1alpha1.Session{ObjectMeta: named(namespace, name), Spec: v1alpha1.SessionSpec{
		HarnessRef: v1alpha1.LocalReference{Name: "base"},
		Hints:      map[string]v1alpha1.JSON{"note": {Raw: fmt.Appendf(nil, "%q", strings.Repeat("x", quarter))}},
		ConfigLayer: v1alpha1.ConfigLayer{
			SystemPrompt:  strings.Repeat("\U0001F642", quarter/4), // Four bytes each.
			NetworkAccess: &v1alpha1.NetworkAccess{Blocked: hosts},
		},
	}}
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
func patternTool(ctx context.Context, as client.Client, namespace string, n int) error {
	count, alternatives := 420, 110
	if n%2 == 1 {
		count, alternatives = 60, 100
	}
	properties := make([]string, count)
	for i := range properties {
		properties[i] = fmt.Sprintf(`"p%d":{"type":"string","pattern":"(?:a|b%d|001){%d}"}`, i, n, alternatives)
	}
	tool := &v1alpha1.Tool{ObjectMeta: named(namespace, fmt.Sprintf("patterns-%d", n%50))}
	err := as.Get(ctx, keyOf(tool), tool)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	tool.Spec = v1alpha1.ToolSpec{
		Description: "Takes much.", Client: &v1alpha1.ClientTool{},
		InputSchema: &v1alpha1.JSON{Raw: []byte(`{"type":"object","properties":{` + strings.Join(properties, ",") + `}}`)},
	}
	if err != nil {
		return as.Create(ctx, tool)
	}
	return as.Update(ctx, tool)
}

// simulated creates a simulated Model.
func simulated(ctx context.Context, as client.Client, namespace, name string, script v1alpha1.Simulation) error {
	return as.Create(ctx, builder.Model(name).In(namespace).Simulated(script).Obj())
}

// talk creates a Turn in a Session, which it creates with the Model and the Tools unless it is there.
func talk(
	ctx context.Context,
	as client.Client,
	namespace, session string,
	n int,
	model, text string,
	tools ...string,
) error {
	if err := newTalk(ctx, as, namespace, session, model, tools...); err != nil {
		return err
	}
	turn := builder.Turn(fmt.Sprintf("%s-%d", session, n)).In(namespace).Input(text).Obj()
	turn.Spec.SessionRef.Name = session
	return as.Create(ctx, turn)
}

func newTalk(ctx context.Context, as client.Client, namespace, session, model string, tools ...string) error {
	of := &v1alpha1.Session{ObjectMeta: named(namespace, session), Spec: v1alpha1.SessionSpec{
		HarnessRef: v1alpha1.LocalReference{Name: "base"},
		ConfigLayer: v1alpha1.ConfigLayer{
			ModelRef:      &v1alpha1.LocalReference{Name: model},
			MaxIterations: new(int32(10_000)),
		},
		JournalLimit: new(resource.MustParse("1Gi")), // The manager's limit counts.
	}}
	for _, tool := range tools {
		of.Spec.Tools = append(of.Spec.Tools, v1alpha1.LocalReference{Name: tool})
	}
	return client.IgnoreAlreadyExists(as.Create(ctx, of))
}

// showImage creates a Turn with an image of almost a mebibyte, which stays in the conversation. The journal holds
// thirty of them.
func showImage(ctx context.Context, as client.Client, namespace, session string, n int) error {
	if err := newTalk(ctx, as, namespace, session, "patient"); err != nil {
		return err
	}
	turn := builder.Turn(fmt.Sprintf("%s-%d", session, n)).In(namespace).Input("").Obj()
	turn.Spec.SessionRef.Name = session
	turn.Spec.Message = &v1alpha1.TurnMessage{Content: []v1alpha1.MessagePart{{
		Image: &v1alpha1.MessageImage{MediaType: v1alpha1.ImageMediaTypePNG, Data: strings.Repeat("iVBO", 1000<<10/4)},
	}}}
	return as.Create(ctx, turn)
}

// tally counts the errors that the API server returned to a tenant.
type tally struct {
	mu   sync.Mutex
	seen map[string]int
}

func (t *tally) note(name string, err error) {
	answer := "accepted"
	switch {
	case err == nil:
	case apierrors.ReasonForError(err) != metav1.StatusReasonUnknown:
		answer = string(apierrors.ReasonForError(err))
	default:
		answer = "no answer"
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen[name+": "+answer]++
}

// String has one line for each.
func (t *tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var lines []string
	for answer, count := range t.seen {
		lines = append(lines, fmt.Sprintf("%s: %d", answer, count))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// trust mounts a certificate in the manager and makes it one that its requests trust. The manager is started with
// further arguments.
func trust(ctx context.Context, certificate []byte, extra ...string) {
	GinkgoHelper()
	trustIn(ctx, certificate, nil, extra...)
}

// trustIn is trust, for a manager with further variables in its environment.
func trustIn(ctx context.Context, certificate []byte, environment []corev1.EnvVar, extra ...string) {
	GinkgoHelper()
	const name = "e2e-trusted"
	trusted := &corev1.ConfigMap{
		ObjectMeta: named(managerNamespace, name),
		BinaryData: map[string][]byte{"ca.crt": certificate},
	}
	Expect(client.IgnoreNotFound(api.Delete(ctx, trusted.DeepCopy()))).To(Succeed())
	create(ctx, trusted)
	changeManager(ctx, func(spec *corev1.PodSpec) {
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}},
		}})
		container := managerIn(spec)
		container.Args = append(container.Args, extra...)
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/" + name})
		container.Env = append(container.Env, corev1.EnvVar{Name: "SSL_CERT_FILE", Value: "/" + name + "/ca.crt"})
		container.Env = append(container.Env, environment...)
	})
}

// secretFor creates the Secret with a provider's key in a namespace, and lets the manager read it.
func secretFor(ctx context.Context, as client.Client, namespace, name string) error {
	secret := &corev1.Secret{ObjectMeta: named(namespace, name), StringData: map[string]string{"key": "any"}}
	if err := as.Create(ctx, secret); err != nil {
		return err
	}
	return client.IgnoreAlreadyExists(as.Create(ctx, managerMayReadSecrets(namespace)))
}
