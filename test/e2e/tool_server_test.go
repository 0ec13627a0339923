//go:build e2e

package e2e_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// toolServer is a server that tools report to when they start. It counts their starts, gives each start a receipt that
// the tool returns as its result, and keeps each tool waiting until it is let go.
type toolServer struct {
	url string
	// padding is how much the tools write after their receipt. Set it before anything starts.
	padding int

	mu     sync.Mutex
	visits map[string][]visit
	held   map[string]chan struct{}
}

// visit is one start of a tool.
type visit struct {
	// receipt is what the tool was given to return.
	receipt string
	// key is the idempotency key that the tool found in its environment, and trace its trace context.
	key, trace string
}

// newToolServer starts a server that pods can reach.
func newToolServer(ctx context.Context) *toolServer {
	GinkgoHelper()
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", ":0")
	Expect(err).NotTo(HaveOccurred())
	_, port, err := net.SplitHostPort(listener.Addr().String())
	Expect(err).NotTo(HaveOccurred())
	w := &toolServer{
		url:    "http://" + net.JoinHostPort(hostAddress(ctx), port),
		visits: map[string][]visit{},
		held:   map[string]chan struct{}{},
	}
	server := &http.Server{Handler: w}
	go func() { _ = server.Serve(listener) }()
	DeferCleanup(server.Close)
	return w
}

// hostAddress is where pods reach this process.
func hostAddress(ctx context.Context) string {
	GinkgoHelper()
	if address := os.Getenv(envHostAddress); address != "" {
		return address
	}
	var nodes corev1.NodeList
	Expect(api.List(ctx, &nodes)).To(Succeed())
	for _, node := range nodes.Items {
		for _, address := range node.Status.Addresses {
			if address.Type == corev1.NodeInternalIP {
				return address.Address
			}
		}
	}
	Fail("no node has an internal address: set " + envHostAddress + " to an address at which pods reach this process")
	return ""
}

// hold makes the starts of these tools wait until they are let go.
func (w *toolServer) hold(tools ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, tool := range tools {
		w.held[tool] = make(chan struct{})
	}
}

// letGo lets these tools end.
func (w *toolServer) letGo(tools ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, tool := range tools {
		close(w.held[tool])
		delete(w.held, tool)
	}
}

// call is a call of a tool that reports here.
func (w *toolServer) call(tool string) v1alpha1.SimulatedToolCall {
	GinkgoHelper()
	return call(tool, arguments{"url": w.url + "/" + tool})
}

// ServeHTTP takes the report of a tool, whose name is the path.
func (w *toolServer) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	tool := strings.TrimPrefix(request.URL.Path, "/")
	environment := map[string]string{}
	if err := json.NewDecoder(request.Body).Decode(&environment); err != nil {
		http.Error(response, err.Error(), http.StatusBadRequest)
		return
	}
	w.mu.Lock()
	v := visit{
		receipt: "receipt-" + rand.Text(), key: environment["CAPSTAN_IDEMPOTENCY_KEY"], trace: environment["TRACEPARENT"],
	}
	w.visits[tool] = append(w.visits[tool], v)
	held := w.held[tool]
	w.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-request.Context().Done():
			return
		}
	}
	_, _ = io.WriteString(response, v.receipt+strings.Repeat(".", w.padding))
}

// of are the starts of a tool.
func (w *toolServer) of(tool string) []visit {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]visit(nil), w.visits[tool]...)
}

// started reports whether all of these tools have started.
func (w *toolServer) started(tools ...string) func() bool {
	return func() bool {
		for _, tool := range tools {
			if len(w.of(tool)) == 0 {
				return false
			}
		}
		return true
	}
}

// visited waits until a tool has started so often. A container runs a moment before its tool does.
func (w *toolServer) visited(ctx context.Context, tool string, times int) {
	GinkgoHelper()
	Eventually(
		ctx,
		func() int { return len(w.of(tool)) },
	).WithPolling(promptly).
		Should(Equal(times), "starts of tool %s", tool)
}

// containers knows every container of a tool that ever ran in a namespace, as the kubelet reported to the API server.
type containers struct {
	mu sync.Mutex
	// ran has them by call, byTurn by the UID of the Turn and the call.
	ran, byTurn map[string]map[string]bool
}

// watchContainers watches the pods of a namespace until the end of the spec.
func watchContainers(ctx context.Context, namespace string) *containers {
	GinkgoHelper()
	c := &containers{ran: map[string]map[string]bool{}, byTurn: map[string]map[string]bool{}}
	factory := informers.NewSharedInformerFactoryWithOptions(clientset, 0, informers.WithNamespace(namespace))
	informer := factory.Core().V1().Pods().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    c.see,
		UpdateFunc: func(_, pod any) { c.see(pod) },
		DeleteFunc: c.see,
	})
	Expect(err).NotTo(HaveOccurred())
	stop := make(chan struct{})
	factory.Start(stop)
	DeferCleanup(func() {
		close(stop)
		factory.Shutdown()
	})
	Expect(cache.WaitForCacheSync(ctx.Done(), informer.HasSynced)).To(BeTrue())
	return c
}

// see records the containers that have run in a pod.
func (c *containers) see(object any) {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tombstone.Obj
	}
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	status := toolStatus(pod)
	if status == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	note := func(container string) {
		call := pod.Labels[v1alpha1.LabelCall]
		remember(c.ran, call, container)
		remember(c.byTurn, pod.Labels[v1alpha1.LabelTurnUID]+" "+call, container)
	}
	for _, state := range []corev1.ContainerState{status.State, status.LastTerminationState} {
		switch {
		case state.Running != nil:
			note(string(pod.UID) + " " + status.ContainerID)
		case state.Terminated != nil && !state.Terminated.StartedAt.IsZero():
			note(string(pod.UID) + " " + cmp.Or(state.Terminated.ContainerID, status.ContainerID))
		}
	}
	// A container may be started again behind the same status.
	for n := range status.RestartCount {
		note(string(pod.UID) + " restart " + strconv.Itoa(int(n)))
	}
}

func remember(sets map[string]map[string]bool, key, member string) {
	if sets[key] == nil {
		sets[key] = map[string]bool{}
	}
	sets[key][member] = true
}

// counts returns the number of containers that ran for each call.
func (c *containers) counts() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := map[string]int{}
	for id, ran := range c.ran {
		counts[id] = len(ran)
	}
	return counts
}

// shown opens a watch and returns a function that waits for the first object that found matches. A watch shows what
// a poll would miss.
func shown[O client.Object](
	ctx context.Context,
	list client.ObjectList,
	namespace string,
	found func(O) bool,
) func() error {
	GinkgoHelper()
	watch, err := api.Watch(ctx, list, client.InNamespace(namespace))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(watch.Stop)
	return func() error {
		for {
			select {
			case <-ctx.Done():
				return fmt.Errorf("waiting for a watch to show the expected object: %w", ctx.Err())
			case event, open := <-watch.ResultChan():
				if !open {
					return fmt.Errorf("the watch of %T ended too early", list)
				}
				if object, ok := event.Object.(O); ok && found(object) {
					return nil
				}
			}
		}
	}
}
