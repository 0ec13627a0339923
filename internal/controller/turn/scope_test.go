package turn

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

var moment = metav1.NewMicroTime(time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC))

func TestTheEarliestDeadlineCounts(t *testing.T) {
	now := moment.Time
	s := &scope{}
	if got := s.result(now); got.RequeueAfter != 0 {
		t.Errorf("without a deadline: %v", got)
	}
	s.deadline(time.Time{})
	s.deadline(now.Add(time.Minute))
	s.deadline(now.Add(time.Hour))
	s.deadline(now.Add(time.Second))
	if got := s.result(now); got.RequeueAfter != time.Second {
		t.Errorf("after %s, want 1s", got.RequeueAfter)
	}
	if got := s.result(now.Add(time.Hour)); got.RequeueAfter <= 0 {
		t.Error("a deadline that has passed counts")
	}
}

func TestOlder(t *testing.T) {
	for name, test := range map[string]struct {
		seen, written string
		want          bool
	}{
		"nothing written":      {"5", "", false},
		"behind":               {"5", "6", true},
		"behind, more digits":  {"99", "100", true},
		"the same":             {"6", "6", false},
		"ahead":                {"7", "6", false},
		"cannot be compared":   {"x", "6", false},
		"cannot be compared 2": {"6", "x", false},
	} {
		if got := older(test.seen, test.written); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestAStepStartsWithAnEmptyMemory(t *testing.T) {
	var m memory
	m.of(3).known.Row("1-0").Outcome = &tool.Outcome{}
	m.of(3).known.Read = true
	if !m.of(3).known.Done("1-0") || !m.of(3).known.Read {
		t.Error("the memory of the step was lost between passes")
	}
	fresh := m.of(4)
	if fresh.known.Done("1-0") || fresh.known.Read || fresh.closed != nil || fresh.requestedJobs() || fresh.opened == nil {
		t.Errorf("a new step remembers %+v", fresh)
	}
}

func TestATurnCreatedAgainIsANewOne(t *testing.T) {
	var m memories
	key := types.NamespacedName{Namespace: "ns", Name: "t"}
	m.of(key, "1").written = "5"
	if m.of(key, "1").written != "5" || m.replaced(key, "1") != "" || m.replaced(key, "2") != "1" {
		t.Error("forgotten, or taken for another one")
	}
	if m.of(key, "2").written != "" {
		t.Error("writes to another Turn of the name count")
	}
	if got := m.forget(key); len(got) != 1 || got[0] != "2" {
		t.Errorf("forgot %v", got)
	}
	if got := m.forget(key); got != nil {
		t.Errorf("forgot %v twice", got)
	}
}

func job(name string, uid types.UID, ended bool) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid}}
	if ended {
		j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}
	}
	return j
}

func pod(phase corev1.PodPhase, containers ...corev1.ContainerStatus) *corev1.Pod {
	return &corev1.Pod{Status: corev1.PodStatus{Phase: phase, ContainerStatuses: containers}}
}

func TestWhatCouldStillRun(t *testing.T) {
	over := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	tools := func(state corev1.ContainerState) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: v1alpha1.ToolContainerName, State: state}
	}
	for name, test := range map[string]struct {
		job  *batchv1.Job
		pods []*corev1.Pod
		want bool
	}{
		"a Job that has no pod yet":      {job: job("a", "1", false), want: true},
		"a Job that ended without a pod": {job: job("a", "1", true)},
		"a pod that waits": {
			job: job("a", "1", false), pods: []*corev1.Pod{pod(corev1.PodPending)}, want: true,
		},
		"a pod that runs": {
			job: job("a", "1", false), pods: []*corev1.Pod{pod(corev1.PodRunning)}, want: true,
		},
		"a pod that has ended":  {job: job("a", "1", false), pods: []*corev1.Pod{pod(corev1.PodSucceeded)}},
		"a pod that has failed": {job: job("a", "1", false), pods: []*corev1.Pod{pod(corev1.PodFailed)}},
		"a pod whose tool has ended": {
			job: job("a", "1", false), pods: []*corev1.Pod{pod(corev1.PodRunning, tools(over))},
		},
		"a pod whose sidecar has ended": {
			job: job("a", "1", false),
			pods: []*corev1.Pod{
				pod(corev1.PodRunning, corev1.ContainerStatus{Name: "other", State: over}, tools(corev1.ContainerState{})),
			},
			want: true,
		},
		"a second pod of a Job": {
			job: job("a", "1", false), pods: []*corev1.Pod{pod(corev1.PodFailed), pod(corev1.PodPending)}, want: true,
		},
		"a pod that outlives its ended Job": {
			job: job("a", "1", true), pods: []*corev1.Pod{pod(corev1.PodRunning)}, want: true,
		},
		"a pod whose Job is not there (nil)": {pods: []*corev1.Pod{pod(corev1.PodRunning)}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			jobs, pods := map[string]*batchv1.Job{}, map[string][]*corev1.Pod{}
			if test.job != nil {
				jobs[test.job.Name] = test.job
			}
			if test.pods != nil {
				pods["1"] = test.pods
			}
			if got := anyAlive(jobs, pods); got != test.want {
				t.Errorf("could run: %v, want %v", got, test.want)
			}
		})
	}
}

func TestAJobThatWasAskedForAndIsNotSeenMayBeOnItsWay(t *testing.T) {
	var m memory
	step := m.of(1)
	step.job("b").requested = true
	if !anyUnseen(map[string]*batchv1.Job{"a": job("a", "1", true), "c": job("c", "2", true)}, step) {
		t.Error("Jobs of other names count for the requested one")
	}
	if anyUnseen(map[string]*batchv1.Job{"b": job("b", "1", true)}, step) {
		t.Error("a Job that is there counts as unseen")
	}
}

func clientCall(id string) v1alpha1.ToolCall {
	return v1alpha1.ToolCall{ID: id, Executor: v1alpha1.ToolExecutorClient, State: v1alpha1.ToolCallStateWaiting}
}

func given(name, call string, accepted metav1.ConditionStatus) v1alpha1.ToolResult {
	r := v1alpha1.ToolResult{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ToolResultSpec{CallID: call}}
	if accepted != "" {
		r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAccepted, Status: accepted}}
	}
	return r
}

func TestTheFirstOpenResultIsOfferedForEachCallThatWaits(t *testing.T) {
	going := given("going", "1-0", "")
	going.DeletionTimestamp = &metav1.Time{Time: moment.Time}
	a := acting(
		clientCall("1-0"),
		clientCall("1-1"),
		v1alpha1.ToolCall{ID: "1-2", Executor: v1alpha1.ToolExecutorJob},
		clientCall("1-3"),
	)
	a.results = []v1alpha1.ToolResult{
		given(
			"refused",
			"1-0",
			metav1.ConditionFalse,
		),
		going,
		given("first", "1-0", metav1.ConditionUnknown),
		given("second", "1-0", ""),
		given(
			"for a Job",
			"1-2",
			"",
		),
		given("answered", "1-3", ""),
		given("of no call", "9-9", ""),
		deciding("a decision", "1-1", v1alpha1.DecisionApprove),
	}
	a.step.known.Row("1-3").Outcome = &tool.Outcome{State: v1alpha1.ToolCallStateSucceeded}
	if got := nameOf(a.accepted(moment.Time)); got != "first" {
		t.Errorf("accepted %q", got)
	}
}

func TestWhichChangesOfASessionWakeItsTurn(t *testing.T) {
	changed := activeTurnChanged()
	with := func(uid types.UID) *v1alpha1.Session {
		s := &v1alpha1.Session{}
		if uid != "" {
			s.Status.ActiveTurn = &v1alpha1.ActiveTurn{Name: "t", UID: uid}
		}
		return s
	}
	for name, test := range map[string]struct {
		before, after types.UID
		want          bool
	}{
		"admission":       {"", "1", true},
		"the next Turn":   {"1", "2", true},
		"release":         {"1", "", false},
		"nothing":         {"1", "1", false},
		"totals and such": {"", "", false},
	} {
		if got := changed.Update(
			event.UpdateEvent{ObjectOld: with(test.before), ObjectNew: with(test.after)},
		); got != test.want {
			t.Errorf("%s: wakes %v", name, got)
		}
	}
	if !changed.Create(event.CreateEvent{Object: with("")}) || changed.Delete(event.DeleteEvent{Object: with("1")}) {
		t.Error("a Session that is new wakes, one that was deleted does not")
	}
}

func TestOnlyResultsThatAreOpenOrWereJustAcceptedWakeTheirTurn(t *testing.T) {
	concerns := concernsItsTurn()
	before := given("r", "1-0", metav1.ConditionUnknown)
	for status, want := range map[metav1.ConditionStatus]struct{ listed, same, changed bool }{
		"":                      {true, true, true},
		metav1.ConditionUnknown: {true, true, true},
		metav1.ConditionTrue:    {false, false, true},
		metav1.ConditionFalse:   {false, false, false},
	} {
		r := given("r", "1-0", status)
		if got := concerns.Create(event.CreateEvent{Object: &r, IsInInitialList: true}); got != want.listed {
			t.Errorf("accepted %q: wakes %v when the process begins", status, got)
		}
		if got := concerns.Create(event.CreateEvent{Object: &r}); got != want.changed {
			t.Errorf("accepted %q: wakes %v when it is created", status, got)
		}
		if got := concerns.Update(event.UpdateEvent{ObjectOld: &r, ObjectNew: &r}); got != want.same {
			t.Errorf("accepted %q: wakes %v when nothing has changed", status, got)
		}
		if got := concerns.Update(event.UpdateEvent{ObjectOld: &before, ObjectNew: &r}); got != want.changed {
			t.Errorf("accepted %q: wakes %v once it is", status, got)
		}
	}
}
