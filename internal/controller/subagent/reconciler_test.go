package subagent

import (
	"context"
	"errors"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/fieldindex"
)

var endTime = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))

const retention = 10 * time.Minute

func origin(retention v1alpha1.SubAgentRetention) *v1alpha1.Origin {
	return &v1alpha1.Origin{Type: v1alpha1.OriginTypeSubAgent, SubAgent: &v1alpha1.SubAgentOrigin{
		Turn: v1alpha1.ObjectIdentity{Name: "demo-1", UID: "t1"}, Retention: retention,
	}}
}

// newTurn is a Turn of this name, which has ended or runs.
func newTurn(name string, uid types.UID, finished bool, origin *v1alpha1.Origin) *v1alpha1.Turn {
	t := &v1alpha1.Turn{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uid},
		Spec:       v1alpha1.TurnSpec{DesiredState: v1alpha1.DesiredStateRunning},
	}
	if of := origin.SubAgentOf(); of != nil {
		t.Spec.Origin = &v1alpha1.TurnOrigin{Type: v1alpha1.TurnOriginTypeSubAgent, SubAgent: of}
	}
	if finished {
		t.Status.Conditions = []metav1.Condition{{
			Type: v1alpha1.ConditionFinished, Status: metav1.ConditionTrue, LastTransitionTime: endTime,
		}}
	}
	return t
}

// stopped is a Turn whose end was requested.
func stopped(t *v1alpha1.Turn) *v1alpha1.Turn {
	t.Spec.DesiredState = v1alpha1.DesiredStateCancelled
	return t
}

// cluster returns a client of a cluster with these objects.
func cluster(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(
		v1alpha1.AddToScheme(scheme), batchv1.AddToScheme(scheme), corev1.AddToScheme(scheme),
	); err != nil {
		t.Fatal(err)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...)
	for _, index := range fieldindex.All() {
		builder = builder.WithIndex(index.Object, index.Field, index.Values)
	}
	return builder.Build()
}

func TestASubAgentIsKeptForTheRetentionTime(t *testing.T) {
	remove, keep := v1alpha1.SubAgentRetentionDelete, v1alpha1.SubAgentRetentionKeep
	for name, test := range map[string]struct {
		caller, own *v1alpha1.Turn
		retention   v1alpha1.SubAgentRetention
		age         time.Duration
		// used reports whether the Session has had a Turn.
		used bool
		// kept, cancelled and later are the expected results: later is when the next pass is due.
		kept, cancelled bool
		later           time.Duration
	}{
		"while its caller runs": {
			caller: newTurn("demo-1", "t1", false, nil), own: newTurn("agent-1", "a1", true, origin(remove)),
			age: time.Hour, kept: true,
		},
		"before its time is over": {
			caller: newTurn("demo-1", "t1", true, nil), own: newTurn("agent-1", "a1", true, origin(remove)), age: time.Minute,
			kept: true, later: 9 * time.Minute,
		},
		"when its time is over": {
			caller: newTurn("demo-1", "t1", true, nil), own: newTurn("agent-1", "a1", true, origin(remove)), age: retention,
		},
		"that runs when its caller has ended": {
			caller: newTurn("demo-1", "t1", true, nil), own: newTurn("agent-1", "a1", false, origin(remove)), age: time.Minute,
			kept: true, cancelled: true, later: 9 * time.Minute,
		},
		"that runs when its time is over": {
			caller: newTurn("demo-1", "t1", true, nil), own: newTurn("agent-1", "a1", false, origin(remove)), age: time.Hour,
			kept: true, cancelled: true, later: time.Minute,
		},
		"that has not ended when its time is over": {
			caller: newTurn("demo-1", "t1", true, nil), own: stopped(newTurn("agent-1", "a1", false, origin(remove))),
			age: time.Hour, cancelled: true,
		},
		"to be kept, that has not ended": {
			caller: newTurn("demo-1", "t1", true, nil), own: newTurn("agent-1", "a1", false, origin(keep)), retention: keep,
			age: time.Hour, kept: true, cancelled: true,
		},
		"whose caller is gone": {own: newTurn("agent-1", "a1", true, origin(remove)), age: time.Minute},
		"that runs when its caller is gone": {
			own: newTurn("agent-1", "a1", false, origin(remove)), age: time.Minute, kept: true, cancelled: true,
		},
		"whose caller was replaced": {
			caller: newTurn("demo-1", "t2", false, nil), own: newTurn("agent-1", "a1", true, origin(remove)), age: time.Minute,
		},
		"without a Turn, just made": {age: time.Second, kept: true, later: 4 * time.Second},
		"to be kept, without a Turn when its caller has ended": {
			caller: newTurn("demo-1", "t1", true, nil), retention: keep, age: time.Minute, kept: true, later: 9 * time.Minute,
		},
		"to be kept, that never had a Turn": {caller: newTurn("demo-1", "t1", true, nil), retention: keep, age: time.Hour},
		"to be kept, whose Turn was deleted": {
			caller: newTurn("demo-1", "t1", true, nil), retention: keep, age: time.Hour, used: true, kept: true,
		},
		"to be kept": {
			caller: newTurn("demo-1", "t1", true, nil), own: newTurn("agent-1", "a1", true, origin(keep)), retention: keep,
			age: time.Hour, kept: true,
		},
		"to be kept, that runs when its caller is gone": {
			own: newTurn("agent-1", "a1", false, origin(keep)), retention: keep, age: time.Hour, kept: true, cancelled: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if test.retention == "" {
				test.retention = remove
			}
			session := &v1alpha1.Session{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "agent-1", UID: "s1", CreationTimestamp: endTime},
				Spec:       v1alpha1.SessionSpec{Origin: origin(test.retention)},
			}
			if test.used {
				session.Status.Totals.Turns = 1
			}
			objects := []client.Object{session}
			for _, object := range []*v1alpha1.Turn{test.caller, test.own} {
				if object != nil {
					objects = append(objects, object)
				}
			}
			c := cluster(t, objects...)
			r := &Reconciler{
				Client: c, Live: c, Clock: func() time.Time { return endTime.Add(test.age) }, Retention: retention,
			}
			key := client.ObjectKeyFromObject(session)
			result, err := r.Reconcile(context.Background(), ctrl.Request{NamespacedName: key})
			if err != nil || result.RequeueAfter != test.later {
				t.Errorf("the pass gave %+v, %v", result, err)
			}
			if err := client.IgnoreNotFound(c.Get(t.Context(), key, session)); err != nil {
				t.Fatal(err)
			}
			if kept := c.Get(t.Context(), key, session) == nil; kept != test.kept {
				t.Errorf("kept: %v", kept)
			}
			own := &v1alpha1.Turn{}
			cancelled := c.Get(t.Context(), key, own) == nil && own.Spec.DesiredState == v1alpha1.DesiredStateCancelled
			if cancelled != test.cancelled {
				t.Errorf("cancelled: %v", cancelled)
			}
		})
	}
}

func TestTheEndOfATurnReachesItsSubAgents(t *testing.T) {
	agent := &v1alpha1.Session{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "agent-1"},
		Spec:       v1alpha1.SessionSpec{Origin: origin(v1alpha1.SubAgentRetentionDelete)},
	}
	other := &v1alpha1.Session{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo"}}
	r := &Reconciler{Client: cluster(t, agent, other)}
	found := r.ofTurn(t.Context(), newTurn("demo-1", "t1", true, nil))
	if len(found) != 1 || found[0].Name != "agent-1" {
		t.Errorf("the Turn wakes %v", found)
	}
	own := newTurn("agent-1", "a1", true, origin(v1alpha1.SubAgentRetentionDelete))
	own.Spec.SessionRef.Name = "agent-1"
	if found := r.ofTurn(t.Context(), own); len(found) != 1 || found[0].Name != "agent-1" {
		t.Errorf("the Turn of the sub-agent wakes %v", found)
	}
}

// A process that was paused may create the Turn of a sub-agent after its caller has ended.
func TestALateTurnReachesItsSession(t *testing.T) {
	of, other := newTurn(
		"agent-1",
		"a1",
		false,
		origin(v1alpha1.SubAgentRetentionKeep),
	), newTurn(
		"demo-1",
		"t1",
		false,
		nil,
	)
	for name, test := range map[string]struct {
		turn    *v1alpha1.Turn
		initial bool
		want    bool
	}{
		"of a sub-agent":           {of, false, true},
		"that was there before":    {of, true, false},
		"that a user has created":  {other, false, false},
		"of a user, there already": {other, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ended().Create(event.CreateEvent{Object: test.turn, IsInInitialList: test.initial}); got != test.want {
				t.Errorf("it wakes the Session: %v", got)
			}
		})
	}
}
