package turns_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// sandboxes is a provider of sandboxes: a site that starts and deletes them.
type sandboxes struct {
	*site
	// losing is set before the response to a request that starts one, unless it is nil.
	losing atomic.Pointer[atomic.Bool]

	mu      sync.Mutex
	cleaner http.HandlerFunc
}

// newSandboxes starts a provider whose only sandbox is vm-1.
func newSandboxes(clean http.HandlerFunc) *sandboxes {
	p := &sandboxes{cleaner: clean}
	p.site = newSite(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/start" {
			if losing := p.losing.Load(); losing != nil {
				losing.Store(true)
			}
			responds(`{"id": "vm-1"}`)(w, r)
			return
		}
		p.mu.Lock()
		answer := p.cleaner
		p.mu.Unlock()
		answer(w, r)
	})
	return p
}

// cleansWith changes how the provider responds to a clean-up.
func (p *sandboxes) cleansWith(answer http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cleaner = answer
}

// to returns the bodies of the requests to a path, and the number of their keys.
func (p *sandboxes) to(path string) (bodies []string, keys int) {
	seen := map[string]bool{}
	for _, r := range p.requests() {
		if r.URL.Path == path {
			bodies = append(bodies, r.body)
			seen[r.Header.Get("Idempotency-Key")] = true
		}
	}
	return bodies, len(seen)
}

// cleaned returns a function that counts the clean-ups.
func (p *sandboxes) cleaned() int {
	bodies, _ := p.to("/clean")
	return len(bodies)
}

// begin creates a namespace with a Session that can start sandboxes, release and list them. The headers are those of
// the Tool that cleans up.
func (p *sandboxes) begin(ctx context.Context, headers ...v1alpha1.HTTPHeader) string {
	GinkgoHelper()
	start, clean := p.tool("start", v1alpha1.SideEffectIdempotent), p.tool("clean", v1alpha1.SideEffectIdempotent)
	clean.Spec.HTTP.Headers = headers
	start.Spec.Lease = &v1alpha1.ToolLease{
		Provider: "example.com", Type: "vm", ExternalIDFrom: v1alpha1.LeaseIDSourceResult, ExternalIDPath: "/id",
		Duration: metav1.Duration{Duration: time.Hour},
		Cleanup:  &v1alpha1.ToolLeaseCleanup{ToolRef: v1alpha1.LocalReference{Name: "clean"}},
	}
	script := fileScript(map[string][]v1alpha1.SimulatedToolCall{
		"begin":   {fileCall("start", `{}`)},
		"list":    {fileCall("list_resources", `{}`)},
		"release": {fileCall("release_resource", `{"provider": "example.com", "type": "vm", "external_id": "vm-1"}`)},
		"other":   {fileCall("release_resource", `{"provider": "example.com", "type": "vm", "external_id": "vm-2"}`)},
	})
	script.Response = builder.Fixed("{{tool:start}}{{tool:list_resources}}{{tool:release_resource}}")
	namespace := newNamespace(ctx, script, start)
	clean.Namespace = namespace // The model is not offered it.
	create(ctx, clean)
	session := builder.Session("demo").In(namespace).Obj()
	session.Spec.Capabilities = []v1alpha1.CapabilityReference{{Builtin: "session_resources"}}
	create(ctx, session)
	Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseStarted))
	return namespace
}

// leaseIn returns a function that reads the only lease of a namespace.
func leaseIn(ctx context.Context, namespace string) func(Gomega) *v1alpha1.LeasedResource {
	return func(g Gomega) *v1alpha1.LeasedResource {
		var list v1alpha1.LeasedResourceList
		g.Expect(kit.Client.List(ctx, &list, client.InNamespace(namespace))).To(Succeed())
		g.Expect(list.Items).To(HaveLen(1))
		return &list.Items[0]
	}
}

// inState succeeds with a lease in a state.
func inState(state v1alpha1.LeaseState) OmegaMatcher { return HaveField("Status.State", state) }

// patchLease changes the only lease of a namespace as a user does.
func patchLease(ctx context.Context, namespace, patch string) {
	GinkgoHelper()
	l := leaseIn(ctx, namespace)(NewWithT(GinkgoT()))
	Expect(kit.Client.Patch(ctx, l, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

// cleaningOnce is a clean-up that responds once it may.
func cleaningOnce(arrived chan<- struct{}, may <-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		select {
		case <-may:
			responds("done")(w, r)
		case <-r.Context().Done():
		}
	}
}

var _ = Describe("Leases", Serial, Ordered, func() {
	clock, losing := capstantest.NewClock(time.Now()), &atomic.Bool{}
	another := onOwnServer(capstantest.Options{
		Clock: clock, EgressAllow: loopback, EgressRoots: testRoots(), NoJobPlayer: true,
		Transport: func(next http.RoundTripper) http.RoundTripper { return losesEntries{next, losing} },
	})
	BeforeEach(func() {
		losing.Store(false)
		kit = another()
	})
	active := inState(v1alpha1.LeaseStateActive)
	released := inState(v1alpha1.LeaseStateReleased)
	const failed, cleaning = v1alpha1.LeaseStateCleanupFailed, v1alpha1.LeaseStateCleaning

	// Rules: LEASE-01, LEASE-03, LEASE-04, RES-01.
	It("are extended by further calls, and clean up when they expire", func(ctx context.Context) {
		p := newSandboxes(responds("done"))
		namespace := p.begin(ctx)
		Expect(respond(ctx, namespace, "demo-1", "begin")).To(ContainSubstring(`{"id": "vm-1"}`))
		Eventually(leaseIn(ctx, namespace)).Should(active)
		first := leaseIn(ctx, namespace)(NewWithT(GinkgoT()))
		Expect(first.Spec.ExternalID + " " + first.Spec.SessionRef.Name + " " + first.Spec.Turn).To(Equal("vm-1 demo demo-1"))
		Expect(first.Status.ExpiresAt.Time).To(BeTemporally("~", clock.Now().Add(time.Hour), time.Minute))
		Expect(respond(ctx, namespace, "demo-2", "list")).To(And(
			ContainSubstring(first.Name), ContainSubstring(`"external_id":"vm-1"`), ContainSubstring(`"status":"active"`)))

		clock.Advance(30 * time.Minute)
		respond(ctx, namespace, "demo-3", "begin")
		second := leaseIn(ctx, namespace)(NewWithT(GinkgoT()))
		Expect(second.UID).To(Equal(first.UID))
		Expect(second.Status.ExpiresAt.Time).To(BeTemporally("~", clock.Now().Add(time.Hour), time.Minute))
		clock.Advance(45 * time.Minute)
		respond(ctx, namespace, "demo-4", "list")
		Expect(p.cleaned()).To(Equal(0), "the second call has extended the lease")

		clock.Advance(20 * time.Minute)
		Eventually(leaseIn(ctx, namespace)).Should(released)
		bodies, keys := p.to("/clean")
		Expect(bodies).To(HaveExactElements(MatchJSON(`{"externalID": "vm-1", "provider": "example.com", "type": "vm"}`)))
		Expect(keys).To(Equal(1))
		Expect(respond(ctx, namespace, "demo-5", "list")).To(ContainSubstring(`"status":"released"`))

		respond(ctx, namespace, "demo-6", "begin")
		Eventually(leaseIn(ctx, namespace)).Should(active)
		Expect(leaseIn(ctx, namespace)(NewWithT(GinkgoT())).UID).NotTo(Equal(first.UID), "it is another sandbox")
		clock.Advance(61 * time.Minute)
		Eventually(leaseIn(ctx, namespace)).Should(released)
		clock.Advance(8 * 24 * time.Hour)
		Eventually(func() ([]v1alpha1.LeasedResource, error) {
			var list v1alpha1.LeasedResourceList
			err := kit.Client.List(ctx, &list, client.InNamespace(namespace))
			return list.Items, err
		}).Should(BeEmpty())
	})

	// Rules: LEASE-01.
	It("are not lost with a manager that ends between the response and the journal", func(ctx context.Context) {
		p := newSandboxes(responds("done"))
		namespace := p.begin(ctx)
		p.losing.Store(losing)
		create(ctx, builder.Turn("demo-1").In(namespace).Input("begin").Obj())
		Eventually(leaseIn(ctx, namespace)).Should(active)
		Expect(kit.Stop()).To(Succeed())
		first := leaseIn(ctx, namespace)(NewWithT(GinkgoT()))

		p.losing.Store(nil)
		losing.Store(false)
		kit = another()
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Expect(leaseIn(ctx, namespace)(NewWithT(GinkgoT())).UID).To(Equal(first.UID))
		bodies, keys := p.to("/start")
		Expect(bodies).To(HaveLen(2), "no entry has the outcome of the first request")
		Expect(keys).To(Equal(1), "the second request is a repetition of the first")
	})

	// Rules: LEASE-04.
	It("clean up with another manager when the first ends in the middle of it", func(ctx context.Context) {
		arrived := make(chan struct{}, 10)
		p := newSandboxes(cleaningOnce(arrived, nil))
		namespace := p.begin(ctx)
		respond(ctx, namespace, "demo-1", "begin")
		Eventually(leaseIn(ctx, namespace)).Should(active)
		clock.Advance(61 * time.Minute)
		Eventually(arrived).Should(Receive())
		Expect(kit.Stop()).To(Succeed())

		p.cleansWith(responds("done"))
		kit = another()
		Eventually(leaseIn(ctx, namespace)).Should(inState(cleaning))
		Consistently(p.cleaned).WithTimeout(300*time.Millisecond).Should(Equal(1), "the claim is not stale yet")
		clock.Advance(time.Minute)
		Eventually(leaseIn(ctx, namespace)).Should(released)
		bodies, keys := p.to("/clean")
		Expect(bodies).To(HaveLen(2))
		Expect(keys).To(Equal(1), "the second request is a repetition of the first")
	})

	// Rules: CONN-01, LEASE-04.
	It("clean up with the connection of the user who has created the resource", func(ctx context.Context) {
		p := newSandboxes(responds("done"))
		namespace := p.begin(ctx, v1alpha1.HTTPHeader{
			Name: "Authorization", Connection: &v1alpha1.HeaderConnection{Provider: "github", Scheme: "Bearer"},
		})
		of := func(user string) *corev1.Secret {
			return builder.Connection(namespace, "github", user, token(user+"-t0ken"), p.host())
		}
		create(ctx, of("bob"))
		for i, user := range []string{"ann", "bob"} {
			turn := by(user, namespace, fmt.Sprint("demo-", i))
			turn.Spec.Input = "begin"
			create(ctx, turn)
			finished(ctx, namespace, turn.Name)
		}
		Expect(leaseIn(ctx, namespace)(NewWithT(GinkgoT())).Spec.User).To(Equal("ann"))
		clock.Advance(61 * time.Minute)
		Eventually(
			leaseIn(ctx, namespace),
		).Should(And(inState(failed), HaveField("Status.LastError", ContainSubstring("ann"))))
		Expect(p.cleaned()).To(Equal(0), "bob, who has used it, does not clean up")
		create(ctx, of("ann"))
		clock.Advance(time.Minute)
		Eventually(leaseIn(ctx, namespace)).Should(released)
		Expect(p.authorizations()).To(HaveExactElements("Bearer ann-t0ken"))
		expectNoTrace(ctx, namespace, "t0ken")
	})

	// Rules: LEASE-04.
	It("outlive their Sessions", func(ctx context.Context) {
		p := newSandboxes(responds("done"))
		namespace := p.begin(ctx)
		respond(ctx, namespace, "demo-1", "begin")
		Eventually(leaseIn(ctx, namespace)).Should(active)
		session := builder.Session("demo").In(namespace).Obj()
		Expect(kit.Client.Delete(ctx, session)).To(Succeed())
		Eventually(func() error {
			return kit.Client.Get(ctx, client.ObjectKeyFromObject(session), session)
		}).Should(MatchError(ContainSubstring("not found")))
		Expect(leaseIn(ctx, namespace)(NewWithT(GinkgoT()))).To(active)
		clock.Advance(61 * time.Minute)
		Eventually(leaseIn(ctx, namespace)).Should(released)
		Expect(p.cleaned()).To(Equal(1))
	})

	// Rules: LEASE-04.
	It("that are extended during a clean-up stay", func(ctx context.Context) {
		arrived, may := make(chan struct{}, 10), make(chan struct{})
		p := newSandboxes(cleaningOnce(arrived, may))
		namespace := p.begin(ctx)
		respond(ctx, namespace, "demo-1", "begin")
		Eventually(leaseIn(ctx, namespace)).Should(active)
		clock.Advance(61 * time.Minute)
		Eventually(arrived).Should(Receive())
		Expect(leaseIn(ctx, namespace)(NewWithT(GinkgoT()))).To(inState(cleaning))
		respond(ctx, namespace, "demo-2", "begin")
		Expect(leaseIn(ctx, namespace)(NewWithT(GinkgoT()))).To(active)
		close(may)
		Consistently(leaseIn(ctx, namespace)).WithTimeout(500 * time.Millisecond).Should(active)
		clock.Advance(61 * time.Minute)
		Eventually(leaseIn(ctx, namespace)).Should(released)
	})

	// Rules: LEASE-04.
	It("repeat a clean-up that fails, with pauses that grow, and ask for help", func(ctx context.Context) {
		p := newSandboxes(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "hunter2", http.StatusBadGateway) })
		namespace := p.begin(ctx)
		respond(ctx, namespace, "demo-1", "begin")
		Eventually(leaseIn(ctx, namespace)).Should(active)
		clock.Advance(61 * time.Minute)
		var pauses []time.Duration
		for n := range 4 {
			Eventually(leaseIn(ctx, namespace)).Should(And(inState(failed), HaveField("Status.CleanupFailures", int32(n+1))))
			l := leaseIn(ctx, namespace)(NewWithT(GinkgoT()))
			Expect(l.Status.LastError).To(Equal("The server responded with status 502 Bad Gateway."))
			until := time.Until(l.Status.ExpiresAt.Time) - time.Until(clock.Now())
			pauses = append(pauses, until.Round(10*time.Second))
			Expect(p.cleaned()).To(Equal(n + 1))
			if n == 3 {
				p.cleansWith(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
			}
			clock.Advance(until)
		}
		Expect(pauses).To(HaveExactElements(10*time.Second, 20*time.Second, 40*time.Second, 80*time.Second))
		Eventually(leaseIn(ctx, namespace)).Should(And(released, HaveField("Status.LastError", "")))
		_, keys := p.to("/clean")
		Expect(keys).To(Equal(5), "each attempt has its own key")
		Eventually(eventsIn(ctx, namespace)).Should(ContainElement(ContainSubstring("CleanupFailed")))
	})

	// Rules: LEASE-02, LEASE-03.
	It(
		"are released by models and by users, cleaned up before they are deleted, and abandoned",
		func(ctx context.Context) {
			p := newSandboxes(responds("done"))
			namespace := p.begin(ctx)
			respond(ctx, namespace, "demo-1", "begin")
			Expect(respond(ctx, namespace, "demo-2", "other")).To(ContainSubstring("no lease on a vm"))
			Expect(respond(ctx, namespace, "demo-3", "release")).To(ContainSubstring(`{"state":"Cleaning"}`))
			Eventually(leaseIn(ctx, namespace)).Should(released)
			Expect(p.cleaned()).To(Equal(1))

			respond(ctx, namespace, "demo-4", "begin")
			patchLease(ctx, namespace, `{"spec":{"desiredState":"Released"}}`)
			Eventually(leaseIn(ctx, namespace)).Should(released)
			Expect(p.cleaned()).To(Equal(2))

			respond(ctx, namespace, "demo-5", "begin")
			l := leaseIn(ctx, namespace)(NewWithT(GinkgoT()))
			Expect(kit.Client.Delete(ctx, l)).To(Succeed())
			Eventually(func() error {
				return kit.Client.Get(ctx, client.ObjectKeyFromObject(l), l)
			}).Should(MatchError(ContainSubstring("not found")))
			Expect(p.cleaned()).To(Equal(3))

			respond(ctx, namespace, "demo-6", "begin")
			patchLease(ctx, namespace, `{"spec":{"desiredState":"Abandoned"}}`)
			Eventually(leaseIn(ctx, namespace)).Should(inState(v1alpha1.LeaseStateAbandoned))
			Expect(p.cleaned()).To(Equal(3))
		},
	)

	// Rules: LEASE-01.
	It("keep tools from creating what could not be cleaned up", func(ctx context.Context) {
		p := newSandboxes(responds("done"))
		namespace := p.begin(ctx)
		clean := &v1alpha1.Tool{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "clean"}}
		Expect(kit.Client.Delete(ctx, clean)).To(Succeed())
		respond(ctx, namespace, "demo-1", "begin")
		Expect(kit.Turn(ctx, namespace, "demo-1")()).To(capstantest.HaveToolCall("start",
			v1alpha1.ToolCallStateNotExecuted, v1alpha1.ToolCallReasonLeaseUnavailable))
		Expect(p.requests()).To(BeEmpty())
	})
})

// losesEntries is an API server that is not reachable for entries of journals for a while.
type losesEntries struct {
	next   http.RoundTripper
	losing *atomic.Bool
}

// RoundTrip implements http.RoundTripper.
func (l losesEntries) RoundTrip(r *http.Request) (*http.Response, error) {
	if l.losing.Load() && r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/journalentries") {
		return nil, http.ErrServerClosed
	}
	return l.next.RoundTrip(r)
}
