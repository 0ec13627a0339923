package attacks_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/modelprobe"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/probe"
)

// probes are responses of a server that a Model names, and a tenant that asks for probes without an end.
func probes(t *testing.T) subject {
	n := newNetwork(t)
	egressClient := n.egress(nil)
	get := func(name string, refused bool, all responses) class {
		c := class{name: name, refused: refused}
		for _, a := range all {
			path := n.serve("probe "+name+" "+a.name, a.h)
			n.handlers.Store(path+"/models", a.h)
			c.attempts = append(c.attempts, attempt{name: a.name, run: func(ctx context.Context) string {
				return probeModel(ctx, egressClient, n.hostile.URL+path)
			}})
		}
		return c
	}
	json := func(body string) http.HandlerFunc { return write200("application/json", body) }
	failing := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, body)
		}
	}
	const megabyte = 1 << 20
	storm := newStorm(t)
	return subject{
		name: "Probes of Models",
		classes: []class{
			get("redirects", true, n.redirects()),
			get("bodies", true, bodies("application/json")),
			get("headers", false, headers()),
			get("beginnings of responses", true, beginnings()),
			get("lists of models", false, responses{
				{"of a megabyte of entries", json(`{"data":[{}` + strings.Repeat(",{}", megabyte/3-20) + `]}`)},
				{"nested deeply", json(strings.Repeat(`{"data":[`, 40_000))},
				{"with a long name", json(`{"data":[{"id":"` + strings.Repeat("x", megabyte-100) + `"}]}`)},
				{"of another form", json(`{"data":{"id":[]},"models":7}`)},
				{"with members that are there twice", json(`{"data":[{"id":"m","id":"n"}],"data":[{"id":"m"}],"models":[null]}`)},
			}),
			get("errors", true, responses{
				{"with the API key", failing(`{"error":{"message":"bad key ` + tokenSecret + `"}}`)},
				{"with the API key in other characters", failing(`{"error":"bad key \u0073` + tokenSecret[1:] + `"}`)},
				{"with control characters", failing(`{"error":"\u001b]0;owned\u0007\u202etxet\u0000"}`)},
				{"of a megabyte", failing(`{"error":"` + strings.Repeat("y", megabyte-100) + `"}`)},
				{"nested deeply", failing(`{"error":` + strings.Repeat(`{"message":`, 40_000))},
			}),
			{name: "a storm of probes", attempts: []attempt{
				{name: "300 Models at once", want: "at most 1 at a time", run: storm.many},
				{name: "a Model that asks again and again", want: "1 probe", run: storm.again},
			}},
		},
		after: n.untouched,
		other: storm.another,
	}
}

// probeModel probes a Model at a URL, and returns the message of its condition.
func probeModel(ctx context.Context, c *egress.Client, base string) string {
	// The product gives a probe 15 s.
	ctx, cancel := context.WithTimeout(ctx, 2*fetchTimeout)
	defer cancel()
	u, err := url.Parse(base)
	if err != nil {
		return err.Error()
	}
	m := &v1alpha1.Model{Spec: v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderOpenAI, Model: "m", BaseURL: base}}
	result, err := probe.Do(ctx, m, model.Access{
		Key: tokenSecret, HTTP: c.HTTPClient(egress.TransportOptions{Hosts: []string{egress.Place(u)}}),
	})
	switch {
	case err != nil:
		return refused + err.Error()
	case len(result.Message) > 1024 || strings.ContainsFunc(result.Message, unicode.IsControl):
		return success
	case !result.Reachable:
		return refused + result.Message
	default:
		return result.Message
	}
}

// storm is the controller of probes, with Models of a tenant that has many.
type storm struct {
	reconciler *modelprobe.Reconciler
	// running and most are the probes of the attacker that run at once, and probes all of them.
	running, most, probes atomic.Int64
	// tenants counts the Models of the other tenant.
	tenants atomic.Int64
}

const stormy = 300

func newStorm(t *testing.T) *storm {
	scheme := runtime.NewScheme()
	must(t, v1alpha1.AddToScheme(scheme))
	builder := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.Model{})
	for i := range stormy {
		builder = builder.WithObjects(probed(attacker, fmt.Sprintf("m-%d", i)))
	}
	builder = builder.WithObjects(probed(attacker, "again"), probed(bystander, "m"))
	s := &storm{}
	s.reconciler = &modelprobe.Reconciler{Client: builder.Build(), Clock: time.Now, Prober: s}
	return s
}

// probed is a Model that is Ready and to be probed.
func probed(namespace, name string) *v1alpha1.Model {
	m := &v1alpha1.Model{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Generation: 1},
		Spec:       v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderOpenAI, Probe: &v1alpha1.ModelProbe{}},
	}
	m.UID = types.UID(namespace + "/" + name)
	m.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, ObservedGeneration: 1, Reason: "Ready",
		LastTransitionTime: metav1.Now(),
	}}
	return m
}

// ProbeModel implements modelprobe.Prober: the server of the attacker takes its time.
func (s *storm) ProbeModel(ctx context.Context, m *v1alpha1.Model) (probe.Result, error) {
	if m.Namespace == attacker {
		s.probes.Add(1)
		now := s.running.Add(1)
		defer s.running.Add(-1)
		for most := s.most.Load(); now > most && !s.most.CompareAndSwap(most, now); most = s.most.Load() {
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	return probe.Result{Reachable: true, Reason: v1alpha1.ReasonProbeSucceeded, Message: "fine"}, nil
}

func (s *storm) reconcile(ctx context.Context, namespace, name string) error {
	_, err := s.reconciler.Reconcile(ctx, ctrl.Request{NamespacedName: types.NamespacedName{
		Namespace: namespace, Name: name,
	}})
	return err
}

// many looks at all Models of the attacker with as many workers as the controller has.
func (s *storm) many(ctx context.Context) string {
	s.most.Store(0)
	var all errgroup.Group
	all.SetLimit(8)
	for i := range stormy {
		all.Go(func() error { return s.reconcile(ctx, attacker, fmt.Sprintf("m-%d", i)) })
	}
	if err := all.Wait(); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("at most %d at a time", s.most.Load())
}

// again requests a probe of one Model as often as it can for a second.
func (s *storm) again(ctx context.Context) string {
	s.probes.Store(0)
	key := types.NamespacedName{Namespace: attacker, Name: "again"}
	for i, end := int64(0), time.Now().Add(time.Second); time.Now().Before(end); i++ {
		m := &v1alpha1.Model{}
		if err := s.reconciler.Client.Get(ctx, key, m); err != nil {
			return err.Error()
		}
		m.Spec.Probe.Request, m.Generation = fmt.Sprint(i), m.Generation+1
		conditions := m.Status.DeepCopy().Conditions
		if err := s.reconciler.Client.Update(ctx, m); err != nil {
			return err.Error()
		}
		conditions[0].ObservedGeneration, m.Status.Conditions = m.Generation, conditions
		if err := s.reconciler.Client.Status().Update(ctx, m); err != nil {
			return err.Error()
		}
		if err := s.reconcile(ctx, attacker, "again"); err != nil {
			return err.Error()
		}
	}
	return fmt.Sprintf("%d probe", s.probes.Load())
}

// another is what the other tenant does: it creates a Model, which is probed.
func (s *storm) another(ctx context.Context) error {
	m := probed(bystander, fmt.Sprintf("m-%d", s.tenants.Add(1)))
	conditions := m.Status.Conditions
	if err := s.reconciler.Client.Create(ctx, m); err != nil {
		return err
	}
	m.Status.Conditions = conditions
	if err := s.reconciler.Client.Status().Update(ctx, m); err != nil {
		return err
	}
	if err := s.reconcile(ctx, bystander, m.Name); err != nil {
		return err
	}
	if err := s.reconciler.Client.Get(ctx, client.ObjectKeyFromObject(m), m); err != nil {
		return err
	}
	if c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReachable); c == nil || c.Message != "fine" {
		return fmt.Errorf("the condition %+v", c)
	}
	return nil
}
