//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// good is how a good tenant fared.
type good struct {
	namespace   string
	took, probe []time.Duration
}

func (g good) String() string {
	return fmt.Sprintf("a Turn %s\na ConfigMap, written and read, %s", quantiles(g.took), quantiles(g.probe))
}

// goodTenant sends plain Turns within a time, each in a Session of its own, expects that all succeed, and measures how
// long they take and, beside that, a ConfigMap that is created and read.
func goodTenant(ctx context.Context, turns int, within time.Duration) good {
	GinkgoHelper()
	namespace := newStage(ctx, builder.Script("the answer"))
	ended := endsOf(ctx, namespace)
	began := make([]time.Time, turns)
	var probes []time.Duration
	ticker := time.NewTicker(within / time.Duration(turns))
	defer ticker.Stop()
	for n := range turns {
		session := fmt.Sprintf("s%d", n)
		create(
			ctx,
			builder.Session(session).In(namespace).Obj(),
		)
		probes = append(probes, probe(ctx, namespace, n))
		turn := builder.Turn(session).In(namespace).Input("Please.").Obj()
		turn.Spec.SessionRef.Name = session
		began[n] = time.Now()
		create(ctx, turn)
		<-ticker.C
	}
	Eventually(ctx, ended.count).WithTimeout(hostileTime).WithPolling(interval).Should(Equal(turns))
	took := make([]time.Duration, turns)
	for n := range took {
		took[n] = ended.at(fmt.Sprintf("s%d", n)).Sub(began[n])
	}
	counts, err := finishedIn(ctx, []string{namespace})
	Expect(err).NotTo(HaveOccurred())
	Expect(counts).To(HaveKeyWithValue(namespace, turns))
	return good{namespace, took, probes}
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
