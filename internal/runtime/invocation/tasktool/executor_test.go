package tasktool

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/background"
	"github.com/capstan-dev/capstan/internal/runtime/invocation/executor"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/record/memory"
	"github.com/capstan-dev/capstan/internal/runtime/record/recordtest"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
)

// host notes what it is told. announced is called before an announcement; nil for nothing.
type host struct {
	announcements, changes int
	announced              func() error
}

func (h *host) Announce(context.Context, background.Session, *background.Task) error {
	h.announcements++
	if h.announced != nil {
		return h.announced()
	}
	return nil
}

func (h *host) Changed(background.Session) { h.changes++ }

// scene is a Session with the tool build, and calls of a Turn that start it in the background.
type scene struct {
	host    *host
	objects *recordtest.Objects
	process executor.Process
	build   *v1alpha1.Tool
}

func newScene() *scene {
	s := &scene{host: &host{}, objects: recordtest.Wrap(memory.New()), build: &v1alpha1.Tool{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "build", UID: "b1", Generation: 1},
		Spec: v1alpha1.ToolSpec{
			Description: "Builds.", Job: &v1alpha1.JobTool{Image: "i", Background: v1alpha1.BackgroundPolicyAllow},
		},
	}}
	s.process = executor.Process{Clock: time.Now, Records: record.New(s.objects, record.Options{}), Tasks: s.host}
	return s
}

func (s *scene) tasks() *background.Tasks {
	return background.Of(s.process.Records, background.Session{Namespace: "ns", Name: "demo", UID: "s1"}, time.Now)
}

// call is a call of the Turn, planned with the tool as it is.
func (s *scene) call(id string) executor.Call {
	d := definition.Of(s.build)
	call := v1alpha1.ToolCall{ID: id, Name: background.SpawnTool, Background: "build"}
	d.PinTask(&call)
	return executor.Call{
		Session: journal.Session{Namespace: "ns", Name: "demo", UID: "s1"},
		Turn:    v1alpha1.JournalTurn{Name: "demo-1", UID: "t1"}, Call: call, Definition: d,
		Arguments: background.Wrap("build", `{"a":1}`), Cause: record.Cause{Step: 1, Key: "t1/" + id},
	}
}

// carryOut carries a call out, as a process does that has no other attempt of it.
func (s *scene) carryOut(t *testing.T, c executor.Call) (tool.Outcome, error) {
	t.Helper()
	work, err := (Executor{}).Prepare(t.Context(), s.process, c)
	if err != nil {
		t.Fatal(err)
	}
	return work.Do(t.Context())
}

// recorded are the tasks that are recorded.
func (s *scene) recorded(t *testing.T) []background.Task {
	t.Helper()
	all, err := s.tasks().List(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Rules: TOOL-20, TASK-01.
func TestATaskIsAnnouncedBeforeItIsRecorded(t *testing.T) {
	s := newScene()
	s.host.announced = func() error {
		if found := s.recorded(t); len(found) > 0 {
			t.Errorf("%+v was recorded before it was announced", found)
		}
		return nil
	}
	outcome, err := s.carryOut(t, s.call("1-0"))
	if err != nil || outcome.State != v1alpha1.ToolCallStateSucceeded || s.host.announcements != 1 || s.host.changes != 1 {
		t.Fatalf("%+v, %v, %+v", outcome, err, s.host)
	}
	id := background.ID("t1", "1-0")
	if found := s.recorded(t); len(found) != 1 || found[0].ID != id || !strings.Contains(*outcome.Result, id) {
		t.Errorf("%+v is recorded, and the result is %s", found, *outcome.Result)
	}
}

// Rules: TOOL-20.
func TestATaskThatIsNotAnnouncedIsNotRecorded(t *testing.T) {
	for name, refusal := range map[string]error{
		"a limit of the namespace": background.TooMany(1), "a lost connection": errors.New("the connection was lost"),
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			s.host.announced = func() error { return refusal }
			outcome, _ := s.carryOut(t, s.call("1-0"))
			if outcome.State == v1alpha1.ToolCallStateSucceeded || len(s.recorded(t)) > 0 {
				t.Errorf("%+v, and %+v is recorded", outcome, s.recorded(t))
			}
		})
	}
}

// A process that takes over carries the call out again. Meanwhile the Tool, the namespace and the Session may have
// changed: the task that was recorded counts, and "not executed" would be wrong.
// Rules: TOOL-20, DUR-01.
func TestARepeatedCallReportsTheTaskThatItHasStarted(t *testing.T) {
	for name, change := range map[string]func(*scene, *executor.Call){
		"nothing has changed": func(*scene, *executor.Call) {},
		"its Tool was changed": func(_ *scene, c *executor.Call) {
			c.Definition = nil
		},
		"the namespace has as many tasks as it may have": func(s *scene, _ *executor.Call) {
			s.host.announced = func() error { return background.TooMany(1) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			c := s.call("1-0")
			if _, err := s.carryOut(t, c); err != nil {
				t.Fatal(err)
			}
			change(s, &c)
			outcome, err := s.carryOut(t, c)
			if err != nil || outcome.State != v1alpha1.ToolCallStateSucceeded ||
				!strings.Contains(*outcome.Result, background.ID("t1", "1-0")) {
				t.Errorf("%+v, %v", outcome, err)
			}
			if found := s.recorded(t); len(found) != 1 || found[0].End != nil || s.host.announcements != 1 {
				t.Errorf("%+v is recorded, announced %d times", found, s.host.announcements)
			}
		})
	}
}

// Rules: DUR-01.
func TestARequestThatArrivesAfterARefusalStartsNothing(t *testing.T) {
	s := newScene()
	c := s.call("1-0")
	changed := c
	changed.Definition = nil
	s.host.announced = func() error {
		// Another process takes over here, and finds the Tool changed. This one continues.
		if outcome, err := s.carryOut(t, changed); err != nil || outcome.State != v1alpha1.ToolCallStateNotExecuted {
			t.Errorf("%+v, %v", outcome, err)
		}
		return nil
	}
	outcome, err := s.carryOut(t, c)
	if err != nil || outcome.State != v1alpha1.ToolCallStateNotExecuted ||
		outcome.Reason != v1alpha1.ToolCallReasonToolChanged {
		t.Errorf("the request that arrives later reports %+v, %v", outcome, err)
	}
	if found := s.recorded(t); len(found) != 1 || found[0].Active() {
		t.Errorf("%+v is recorded", found)
	}
}

// failOnce lets the read after the next write of the records fail, and returns a check that it has.
func (s *scene) failOnce() (failed func(*testing.T)) {
	var wrote, done bool
	s.objects.Intercept(func(c recordtest.Call) recordtest.Fault {
		switch {
		case c.Method == recordtest.WriteIndex:
			wrote = true
		case wrote && !done:
			done = true
			return recordtest.Fault{Before: recordtest.Fail}
		}
		return recordtest.Fault{}
	})
	return func(t *testing.T) {
		if !done {
			t.Error("no read has failed")
		}
	}
}

// fill starts as many tasks as a Session may have, but one, and lets another call of the step be faster with that one.
func (s *scene) fill(t *testing.T, then func()) {
	t.Helper()
	for _, id := range []string{"2-0", "2-1", "2-2", "2-3"} {
		if _, err := s.carryOut(t, s.call(id)); err != nil {
			t.Fatal(err)
		}
	}
	s.host.announced = func() error {
		s.host.announced = nil
		_, err := s.carryOut(t, s.call("2-4"))
		then()
		return err
	}
}

// No message ever comes of a task that was withdrawn: its call must not report that it has started.
// Rules: TOOL-20, DUR-01.
func TestARepeatedCallReportsTheRefusalOfItsTask(t *testing.T) {
	for name, test := range map[string]struct {
		reason string
		// before is what has happened before the attempt that is looked at. It returns a check for after it.
		before func(*testing.T, *scene, executor.Call) (after func(*testing.T))
		// changed reports whether its Tool is changed at that attempt.
		changed bool
	}{
		"the answer to the withdrawal was lost": {
			v1alpha1.ToolCallReasonToolChanged,
			func(t *testing.T, s *scene, c executor.Call) func(*testing.T) {
				c.Definition = nil
				failed := s.failOnce()
				if outcome, err := s.carryOut(t, c); err == nil || !outcome.Retryable {
					t.Errorf("the first attempt: %+v, %v", outcome, err)
				}
				return failed
			},
			true,
		},
		"the answer to the withdrawal was lost within the attempt": {
			v1alpha1.ToolCallReasonBackgroundLimit,
			func(t *testing.T, s *scene, _ executor.Call) func(*testing.T) {
				failed := func(t *testing.T) { t.Error("no other call was faster") }
				s.fill(t, func() { failed = s.failOnce() })
				return func(t *testing.T) { failed(t) }
			},
			false,
		},
		"the process ended after the withdrawal, and the Tool is as it was": {
			v1alpha1.ToolCallReasonToolChanged, withdrawn(func(_ *testing.T, _ *scene, c *executor.Call) { c.Definition = nil }),
			false,
		},
		"the process ended after the withdrawal of a task beyond a limit": {
			v1alpha1.ToolCallReasonBackgroundLimit,
			withdrawn(func(t *testing.T, s *scene, _ *executor.Call) { s.fill(t, func() {}) }), true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			c := s.call("1-0")
			after := test.before(t, s, c)
			if test.changed {
				c.Definition = nil
			}
			outcome, err := s.carryOut(t, c)
			after(t)
			if err != nil || outcome.State != v1alpha1.ToolCallStateNotExecuted || outcome.Reason != test.reason ||
				outcome.Result != nil {
				t.Errorf("%+v, %v", outcome, err)
			}
			task, err := s.tasks().Get(t.Context(), background.ID("t1", "1-0"))
			if err != nil || task == nil || task.Active() || task.End.Error != outcome.Error {
				t.Errorf("the task is %+v, %v", task, err)
			}
		})
	}
}

// withdrawn carries a call out whose task is withdrawn because of what is done first.
func withdrawn(
	first func(*testing.T, *scene, *executor.Call),
) func(*testing.T, *scene, executor.Call) (after func(*testing.T)) {
	return func(t *testing.T, s *scene, c executor.Call) func(*testing.T) {
		first(t, s, &c)
		if outcome, err := s.carryOut(t, c); err != nil || outcome.State != v1alpha1.ToolCallStateNotExecuted {
			t.Errorf("the first attempt: %+v, %v", outcome, err)
		}
		return func(*testing.T) {}
	}
}

// Another process carries the same call out, and a task ends, between the refusal and the withdrawal.
// Rules: TOOL-20, DUR-01.
func TestATaskThatIsRecordedBeforeItsWithdrawalHasStarted(t *testing.T) {
	s := newScene()
	c := s.call("1-0")
	other := func(context.Context) error {
		s.objects.Intercept(nil)
		faster := newScene()
		faster.process.Records = record.New(s.objects, record.Options{})
		ended, err := faster.tasks().Get(t.Context(), background.ID("t1", "2-0"))
		if err == nil {
			_, err = faster.tasks().End(t.Context(), ended, tool.Failed(v1alpha1.ToolCallReasonExitCode, "it failed"))
		}
		if err == nil {
			_, err = faster.tasks().Deliver(t.Context(), ended.ID)
		}
		if err == nil {
			_, err = faster.carryOut(t, c)
		}
		return err
	}
	s.fill(t, func() {
		reads := 0
		s.objects.Intercept(func(c recordtest.Call) recordtest.Fault {
			if c.Method == recordtest.ReadIndex {
				reads++
			}
			if reads < 2 {
				return recordtest.Fault{}
			}
			return recordtest.Fault{Before: other}
		})
	})
	outcome, err := s.carryOut(t, c)
	if err != nil || outcome.State != v1alpha1.ToolCallStateSucceeded {
		t.Errorf("%+v, %v", outcome, err)
	}
	task, err := s.tasks().Get(t.Context(), background.ID("t1", "1-0"))
	if err != nil || task == nil || !task.Active() {
		t.Errorf("the task is %+v, %v", task, err)
	}
}

// Rules: TOOL-20.
func TestACallWithAnUnknownOutcomeIsNotDeclaredSafe(t *testing.T) {
	s := newScene()
	lost := false
	s.objects.Intercept(func(c recordtest.Call) recordtest.Fault {
		switch {
		case lost:
			return recordtest.Fault{Before: recordtest.Fail}
		case c.Method == recordtest.WriteIndex:
			lost = true
			return recordtest.Fault{After: recordtest.Fail}
		}
		return recordtest.Fault{}
	})
	outcome, err := s.carryOut(t, s.call("1-0"))
	if err == nil || !outcome.Retryable || strings.Contains(outcome.Error, "safe") ||
		!strings.Contains(outcome.Error, background.ListTool) {
		t.Errorf("%+v, %v", outcome, err)
	}
	s.objects.Intercept(nil)
	if len(s.recorded(t)) != 1 {
		t.Error("the task was not recorded")
	}
}

// Rules: TOOL-20.
func TestAnAttemptOutlastsAFailure(t *testing.T) {
	s := newScene()
	failures := 0
	s.host.announced = func() error {
		failures++
		if failures < tries {
			return errors.New("the connection was lost")
		}
		return nil
	}
	outcome, err := s.carryOut(t, s.call("1-0"))
	if err != nil || outcome.State != v1alpha1.ToolCallStateSucceeded || failures != tries || len(s.recorded(t)) != 1 {
		t.Errorf("after %d failures: %+v, %v", failures-1, outcome, err)
	}
}

// Rules: TOOL-20.
func TestCallsBeyondALimitLeaveNothingAnnounced(t *testing.T) {
	s := newScene()
	for _, id := range []string{"1-0", "1-1", "1-2", "1-3"} {
		if _, err := s.carryOut(t, s.call(id)); err != nil {
			t.Fatal(err)
		}
	}
	s.host.announced = func() error {
		// Another call of the step is faster.
		s.host.announced = nil
		_, err := s.carryOut(t, s.call("1-5"))
		return err
	}
	changes := s.host.changes
	outcome, err := s.carryOut(t, s.call("1-4"))
	if err != nil || outcome.Reason != v1alpha1.ToolCallReasonBackgroundLimit || s.host.changes != changes+2 {
		t.Fatalf("%+v, %v", outcome, err)
	}
	late, err := s.tasks().Get(t.Context(), background.ID("t1", "1-4"))
	if err != nil || late == nil || late.Active() {
		t.Errorf("it was not withdrawn: %+v, %v", late, err)
	}
	announcements := s.host.announcements
	outcome, err = s.carryOut(t, s.call("1-6"))
	if err != nil || outcome.Reason != v1alpha1.ToolCallReasonBackgroundLimit || s.host.announcements != announcements {
		t.Errorf("%+v, %v, and it was announced", outcome, err)
	}
}
