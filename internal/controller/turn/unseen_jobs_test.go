package turn

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// jobQuota is the API server's error if a quota of the namespace allows no further Job. Admission rejects a name that
// exists the same way, because it comes first.
func jobQuota(name string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "jobs"}, name,
		errors.New("exceeded quota: one, requested: count/jobs.batch=1, used: count/jobs.batch=1, "+
			"limited: count/jobs.batch=1"))
}

// hideJobs makes the watch of Jobs lag: the cache shows none while hidden is true.
func hideJobs(w *world, hidden *bool) {
	w.hooks.List = func(
		ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption,
	) error {
		if _, ok := list.(*batchv1.JobList); ok && *hidden {
			return nil
		}
		return c.List(ctx, list, options...)
	}
}

// onCreate calls a function for every creation of some objects. Its error is the response of the API server.
func onCreate(w *world, object func(client.Object) bool, do func(create func() error, name string) error) {
	w.hooks.Create = func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
		create := func() error { return c.Create(ctx, o, options...) }
		if !object(o) {
			return create()
		}
		return do(create, o.GetName())
	}
}

func isJob(o client.Object) bool {
	_, ok := o.(*batchv1.Job)
	return ok
}

func isAccount(o client.Object) bool {
	_, ok := o.(*corev1.ServiceAccount)
	return ok
}

// goesOn reconciles the Turn some times while the cluster runs, whatever the passes return.
func (m *manager) goesOn(passes int) {
	m.w.t.Helper()
	for range passes {
		_, _ = m.pass()
		m.w.play()
		m.w.sleep(time.Second)
	}
}

// expectRan fails unless the call of a tool has its result and ran once.
func (w *world) expectRan(name string) {
	w.t.Helper()
	if text := w.resultText(name); strings.Contains(text, "not executed") || !strings.Contains(text, "result of "+name) {
		w.t.Errorf("it was started %d times, and the model received %q", w.starts(name), text)
	}
	if call := w.call(name); call.State != v1alpha1.ToolCallStateSucceeded || w.starts(name) != 1 {
		w.t.Errorf("it was started %d times, and the call is %s (%s)", w.starts(name), call.State, call.Reason)
	}
}

// The response to the creation of a Job is lost, and the next request is refused, because the Job itself uses up the
// quota.
func TestAJobThatFillsTheQuotaCounts(t *testing.T) {
	for _, class := range []v1alpha1.SideEffect{
		v1alpha1.SideEffectPure, v1alpha1.SideEffectIdempotent, v1alpha1.SideEffectAtMostOnce,
	} {
		t.Run(string(class), func(t *testing.T) {
			w := newWorld(t)
			hidden, requests := true, 0
			hideJobs(w, &hidden)
			onCreate(w, isJob, func(create func() error, name string) error {
				requests++
				if requests > 1 {
					return jobQuota(name)
				}
				if err := create(); err != nil {
					return err
				}
				return apierrors.NewTimeoutError("the request timed out", 1)
			})
			w.begin(builder.JobTool("look", class).Obj())
			m := w.manager(0)
			m.withoutCluster("the refusal", func() bool { return requests > 1 })
			m.goesOn(3)
			hidden = false
			m.until("the end", w.finished)
			w.expectRan("look")
			if requests != 2 {
				t.Errorf("%d Jobs were requested, want 2", requests)
			}
		})
	}
}

// A process starts to lead while its watch of Jobs lags, and finds a reason not to execute a call whose Job exists.
func TestAJobThatAnEarlierProcessCreatedCounts(t *testing.T) {
	for name, deny := range map[string]func(*world){
		"the quota has no room": func(w *world) {
			onCreate(w, isJob, func(_ func() error, name string) error { return jobQuota(name) })
		},
		"the Tool was changed": func(w *world) {
			definition := &v1alpha1.Tool{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "look"}}
			w.change(definition, func() { definition.Spec.Job.Image = "another" })
		},
		"its network access was limited": func(w *world) {
			session := w.session()
			w.change(session, func() {
				session.Spec.NetworkAccess = &v1alpha1.NetworkAccess{Blocked: []v1alpha1.NetworkPattern{"example.org"}}
			})
		},
		"a NetworkPolicy lets it use the network": func(w *world) {
			w.create(&networkingv1.NetworkPolicy{
				ObjectMeta: metav1.ObjectMeta{Name: "open"},
				Spec:       networkingv1.NetworkPolicySpec{Egress: []networkingv1.NetworkPolicyEgressRule{{}}},
			})
		},
		"its ServiceAccount is refused": func(w *world) {
			onCreate(w, isAccount, func(func() error, string) error { return noRoom() })
		},
	} {
		for _, class := range []v1alpha1.SideEffect{
			v1alpha1.SideEffectPure, v1alpha1.SideEffectIdempotent, v1alpha1.SideEffectAtMostOnce,
		} {
			t.Run(name+", "+string(class), func(t *testing.T) {
				w := newWorld(t)
				look := builder.JobTool("look", class).Obj()
				look.Spec.Job.StartTimeout = &metav1.Duration{Duration: time.Second}
				if strings.Contains(name, "NetworkPolicy") {
					look.Spec.Job.Network = v1alpha1.NetworkReachNone
				}
				w.begin(look)
				made := func() bool { return w.jobOf("look") != nil }
				if class == v1alpha1.SideEffectAtMostOnce {
					made = func() bool { return w.call("look").PodUID != "" }
				}
				w.manager(0).until("the Job", made)
				w.hooks = interceptor.Funcs{}
				hidden := true
				hideJobs(w, &hidden)
				deny(w)
				w.play()
				m := w.manager(0)
				m.goesOn(8)
				hidden = false
				m.until("the end", w.finished)
				w.expectRan("look")
			})
		}
	}
}

// A request whose response was lost may still be on its way when the next one is refused.
func TestARefusalDoesNotDenyARequestOnItsWay(t *testing.T) {
	w := newWorld(t)
	var late func() error
	requests := 0
	onCreate(w, isJob, func(create func() error, name string) error {
		requests++
		if requests > 1 {
			return jobQuota(name)
		}
		late = create
		return apierrors.NewTimeoutError("the request timed out", 1)
	})
	w.begin(builder.JobTool("look", v1alpha1.SideEffectPure).Obj())
	m := w.manager(0)
	m.withoutCluster("the refusal", func() bool { return requests > 1 })
	m.goesOn(3)
	if err := late(); err != nil {
		t.Fatal(err)
	}
	m.until("the end", w.finished)
	w.expectRan("look")
}

// If no Job appears, the refusal counts in the end.
func TestARequestThatNeverArrivesIsNotExecuted(t *testing.T) {
	w := newWorld(t)
	requests := 0
	onCreate(w, isJob, func(_ func() error, name string) error {
		requests++
		if requests > 1 {
			return jobQuota(name)
		}
		return apierrors.NewTimeoutError("the request timed out", 1)
	})
	w.begin(builder.JobTool("look", v1alpha1.SideEffectPure).Obj())
	began := w.present()
	w.manager(0).until("the end", w.finished)
	if call := w.call("look"); call.State != v1alpha1.ToolCallStateNotExecuted || call.Reason != "QuotaExceeded" {
		t.Errorf("the call is %s (%s)", call.State, call.Reason)
	}
	if took := w.present().Sub(began); took > 2*time.Minute || requests > 4 {
		t.Errorf("it took %v and %d requests", took, requests)
	}
}

// The read that a refusal costs is the only one: a call that ends by itself costs none.
func TestOnlyARefusalReadsTheJob(t *testing.T) {
	for name, test := range map[string]struct {
		refused bool
		reads   int
	}{"refused": {true, 1}, "accepted": {false, 0}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			reads := 0
			w.hooks.Get = func(
				ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption,
			) error {
				if isJob(o) {
					reads++
				}
				return c.Get(ctx, key, o, options...)
			}
			onCreate(w, isJob, func(create func() error, name string) error {
				if test.refused {
					return jobQuota(name)
				}
				return create()
			})
			w.begin(builder.JobTool("look", v1alpha1.SideEffectPure).Obj())
			w.manager(0).until("the end", w.finished)
			if reads != test.reads {
				t.Errorf("%d reads of the Job, want %d", reads, test.reads)
			}
		})
	}
}
