package turn

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// A user deletes each Job of a call before its pod runs. That ends an attempt like any other disruption, for every
// process that can know of the Job.
func TestAJobThatIsDeletedBeforeItRunsEndsAnAttempt(t *testing.T) {
	shown := func(w *world) func() bool {
		return func() bool { return w.call("look").Reason == v1alpha1.ToolCallReasonStarting }
	}
	for name, lose := range map[string]func(m *manager, job *batchv1.Job) *manager{
		"the process that created it": func(m *manager, job *batchv1.Job) *manager {
			m.w.deleteJob(job)
			return m
		},
		"a process that has seen it": func(m *manager, job *batchv1.Job) *manager {
			next := m.w.manager(0)
			if _, err := next.pass(); err != nil {
				m.w.t.Fatal(err)
			}
			m.w.deleteJob(job)
			return next
		},
		"a process that knows it from the status only": func(m *manager, job *batchv1.Job) *manager {
			m.withoutCluster("the progress", shown(m.w))
			m.w.deleteJob(job)
			return m.w.manager(0)
		},
	} {
		for _, class := range []v1alpha1.SideEffect{v1alpha1.SideEffectPure, v1alpha1.SideEffectIdempotent} {
			t.Run(name+", "+string(class), func(t *testing.T) {
				w := newWorld(t)
				var made []time.Time
				onCreate(w, isJob, func(create func() error, _ string) error {
					made = append(made, w.present())
					return create()
				})
				w.begin(builder.JobTool("look", class).Obj())
				m := w.manager(0)
				for range 2 * act.MaxAttempts {
					m.withoutCluster("the next attempt", func() bool { return w.jobOf("look") != nil || w.finished() })
					if w.finished() {
						break
					}
					m = lose(m, w.jobOf("look"))
				}
				m.until("the end", w.finished)
				if call := w.call(
					"look",
				); call.State != v1alpha1.ToolCallStateFailed ||
					call.Reason != v1alpha1.ToolCallReasonJobGone ||
					call.Attempt != act.MaxAttempts {
					t.Errorf("the call is %s (%s) after %d attempts", call.State, call.Reason, call.Attempt)
				}
				if len(made) != act.MaxAttempts {
					t.Fatalf("%d Jobs were created, want %d", len(made), act.MaxAttempts)
				}
				for i := 1; i < len(made); i++ {
					// The time of an attempt is in status in whole seconds.
					if pause := made[i].Sub(made[i-1]); pause < act.RetryPause(int32(i))-time.Second {
						t.Errorf("attempt %d began after %v", i+1, pause)
					}
				}
			})
		}
	}
}

// The pod of such a call was never let go.
func TestAnAtMostOnceCallWhoseJobIsDeletedBeforeItsPodIsRecordedIsNotExecuted(t *testing.T) {
	for name, restart := range map[string]bool{"the same process": false, "a new process": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			made := 0
			onCreate(w, isJob, func(create func() error, _ string) error {
				made++
				return create()
			})
			w.begin(builder.JobTool("look", v1alpha1.SideEffectAtMostOnce).Obj())
			m := w.manager(0)
			m.withoutCluster("the Job", func() bool { return w.call("look").Reason == v1alpha1.ToolCallReasonStarting })
			w.deleteJob(w.jobOf("look"))
			if restart {
				m = w.manager(0)
			}
			m.until("the end", w.finished)
			if call := w.call(
				"look",
			); call.State != v1alpha1.ToolCallStateNotExecuted || call.Reason != v1alpha1.ToolCallReasonJobGone ||
				made != 1 {
				t.Errorf("the call is %s (%s) after %d Jobs", call.State, call.Reason, made)
			}
		})
	}
}
