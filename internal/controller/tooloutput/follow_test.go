package tooloutput

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

// bubble runs a test with a clock of its own.
func bubble(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		end := w.lead()
		test(t, w)
		end()
	})
}

// Rules: CTX-04.
func TestTheOutputOfARunningCallIsPassedOn(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		turn := w.turn("ns", "t", 2)
		w.subscribe(turn)
		w.show(turn)
		w.expect(2, 2)
		w.write(podOf(turn, "1-0"), "one\n")
		w.write(podOf(turn, "1-1"), "other\n")
		<-time.After(deltaEvery)
		w.write(podOf(turn, "1-0"), "two \xff\x1b[2J\n")
		<-time.After(deltaEvery)
		if a, b := w.text(turn, "1-0"), w.text(turn, "1-1"); a != "one\ntwo \uFFFD\x1b[2J\n" || b != "other\n" {
			t.Errorf("the output is %q and %q", a, b)
		}
		first := w.outputs(turn)[0]
		if first.Turn.Name != "t" || first.Turn.UID != turn.UID || first.Step != 2 || first.Data.ToolName != "w" ||
			first.Data.Attempt != 1 || first.Data.Stream != "stderr" || first.Context["turn_id"] != string(turn.UID) ||
			first.Context["span_id"] == "" || first.Context["parent_span_id"] == "" {
			t.Errorf("the first piece is %+v", first)
		}
	})
}

// Rules: CTX-04.
func TestNoLogIsFollowedWithoutSubscribersOrRunningCalls(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		turn := w.turn("ns", "t", 1)
		w.show(turn)
		w.expect(0, 0)
		w.subscribe(turn)
		for name, change := range map[string]func(*v1alpha1.Turn){
			"a call that waits":     func(t *v1alpha1.Turn) { t.Status.ToolCalls[0].State = v1alpha1.ToolCallStatePending },
			"a request":             func(t *v1alpha1.Turn) { t.Status.ToolCalls[0].Executor = v1alpha1.ToolExecutorHTTP },
			"no plan":               func(t *v1alpha1.Turn) { t.Status.Plan = nil },
			"a step without calls":  func(t *v1alpha1.Turn) { t.Status.Plan.Phase = v1alpha1.PlanPhaseReason },
			"a Turn being deleted":  func(t *v1alpha1.Turn) { t.DeletionTimestamp = &metav1.Time{Time: time.Now()} },
			"a Turn that has ended": func(t *v1alpha1.Turn) { t.Status.Conditions = finished },
			"another step":          func(t *v1alpha1.Turn) { t.Status.Plan.Step = 3 },
			"another attempt":       func(t *v1alpha1.Turn) { t.Status.ToolCalls[0].Attempt = 2 },
			"another call":          func(t *v1alpha1.Turn) { t.Status.ToolCalls[0].ID = "1-7" },
			"other arguments":       func(t *v1alpha1.Turn) { t.Status.ToolCalls[0].Fingerprint = "g" },
			"another pod":           func(t *v1alpha1.Turn) { t.Status.ToolCalls[0].PodUID = "other" },
		} {
			changed := turn.DeepCopy()
			change(changed)
			w.show(changed)
			if opened, _ := w.counts(); opened != 0 {
				t.Fatalf("%s: a log is followed", name)
			}
		}
	})
}

var finished = []metav1.Condition{{Type: v1alpha1.ConditionFinished, Status: metav1.ConditionTrue}}

// A pod that only looks like one of the call is not its pod.
func TestNoForeignPodIsFollowed(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"its own":        func(*corev1.Pod) {},
		"without owner":  func(p *corev1.Pod) { p.OwnerReferences = nil },
		"of another Job": func(p *corev1.Pod) { p.OwnerReferences[0].UID = "other" },
		"that has ended": func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: "tool", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}},
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				turn := w.turn("ns", "t", 1)
				pod := &corev1.Pod{}
				pod.Namespace, pod.Name = "ns", podOf(turn, "1-0")
				if err := w.client.Delete(t.Context(), pod); err != nil {
					t.Fatal(err)
				}
				_, again := w.run(w.turn("ns", "other", 0), turn.Status.ToolCalls[0])
				again.ResourceVersion, again.Name, again.Labels = "", "forged", map[string]string{
					v1alpha1.LabelTurnUID: string(turn.UID), v1alpha1.LabelStep: "2",
				}
				again.OwnerReferences[0].UID = "job-ns-t-1-0"
				change(again)
				if err := w.client.Create(t.Context(), again); err != nil {
					t.Fatal(err)
				}
				w.subscribe(turn)
				w.show(turn)
				want := 0
				if name == "its own" {
					want = 1
				}
				w.expect(want, want)
			})
		})
	}
}

// Rules: CTX-04.
func TestFollowingEndsWithItsReason(t *testing.T) {
	for name, end := range map[string]func(w *world, turn *v1alpha1.Turn, unsubscribe func()){
		"the last subscriber": func(_ *world, _ *v1alpha1.Turn, unsubscribe func()) { unsubscribe() },
		"the call": func(w *world, turn *v1alpha1.Turn, _ func()) {
			turn.Status.ToolCalls[0].State = v1alpha1.ToolCallStateSucceeded
			w.show(turn)
		},
		"the attempt": func(w *world, turn *v1alpha1.Turn, _ func()) {
			turn.Status.ToolCalls[0].Attempt = 2
			w.show(turn)
		},
		"the Turn": func(w *world, turn *v1alpha1.Turn, _ func()) {
			turn.Status.Conditions = finished
			w.show(turn)
		},
		"the Turn, which is deleted": func(w *world, turn *v1alpha1.Turn, _ func()) {
			w.Turn(turn.Status.SessionUID, &v1alpha1.Turn{ObjectMeta: metav1.ObjectMeta{UID: turn.UID}})
		},
		"the leadership": func(w *world, _ *v1alpha1.Turn, _ func()) { w.stop() },
		"the output": func(w *world, turn *v1alpha1.Turn, _ func()) {
			report := result.ReportOf(strings.Repeat("x", 2000), "", 0)
			_, frame := report.Encode(result.NewNonce())
			w.write(podOf(turn, "1-0"), string(frame))
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				turn := w.turn("ns", "t", 1)
				unsubscribe := w.subscribe(turn)
				w.show(turn)
				w.write(podOf(turn, "1-0"), "before\n")
				<-time.After(deltaEvery)
				w.expect(1, 1)
				end(w, turn, unsubscribe)
				w.expect(1, 0)
				w.write(podOf(turn, "1-0"), "after\n")
				<-time.After(time.Minute)
				w.expect(1, 0)
				if text := strings.TrimRight(w.text(turn, "1-0"), "\n"); text != "before" {
					t.Errorf("the output is %q", text)
				}
			})
		})
	}
}

// Rules: CTX-04.
func TestTheOutputOfACallIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		turn := w.turn("ns", "t", 1)
		w.subscribe(turn)
		w.show(turn)
		w.write(podOf(turn, "1-0"), strings.Repeat("\x01€", 1<<20))
		began := time.Now()
		for range 600 {
			<-time.After(deltaEvery)
			synctest.Wait()
		}
		text := w.text(turn, "1-0")
		if len(text) > maxRead || len(text) < maxRead-utf8.UTFMax {
			t.Errorf("%d bytes were passed on", len(text))
		}
		pieces := w.outputs(turn)
		for _, o := range pieces {
			if len(o.Data.Delta) > pieceBytes || !utf8.ValidString(o.Data.Delta) {
				t.Fatalf("a piece has %d bytes", len(o.Data.Delta))
			}
		}
		if least := time.Duration(len(pieces)-1) * deltaEvery; time.Since(began) < least {
			t.Errorf("%d pieces came in %s", len(pieces), time.Since(began))
		}
		w.expect(1, 0)
	})
}

// Rules: CTX-04.
func TestManyWritesAreOnePiece(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		turn := w.turn("ns", "t", 1)
		w.subscribe(turn)
		w.show(turn)
		for range 100 {
			w.write(podOf(turn, "1-0"), "line\n")
			<-time.After(time.Millisecond)
		}
		<-time.After(deltaEvery)
		if n := len(w.outputs(turn)); n > 4 || w.text(turn, "1-0") != strings.Repeat("line\n", 100) {
			t.Errorf("%d pieces", n)
		}
	})
}

func TestALogThatIsCutIsReadOn(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		turn := w.turn("ns", "t", 1)
		pod := podOf(turn, "1-0")
		w.subscribe(turn)
		w.show(turn)
		w.write(pod, "one\n")
		<-time.After(deltaEvery)
		w.end(pod, true)
		w.expect(1, 0)
		w.end(pod, false)
		w.write(pod, "two\n")
		<-time.After(firstPause + deltaEvery)
		w.expect(2, 1)
		if text := w.text(turn, "1-0"); text != "one\ntwo\n" {
			t.Errorf("the output is %q", text)
		}
		w.end(pod, true)
		<-time.After(time.Hour)
		w.expect(maxOpened, 0)
		w.show(turn)
		w.expect(maxOpened, 0)
	})
}

// A log that gives its place to another one has lost nothing: not the piece that it was about to pass on, and not its
// end.
func TestALogThatLosesItsPlaceLosesNoOutput(t *testing.T) {
	for name, size := range map[string]int{"the middle": 8 * pieceBytes, "the end": pieceBytes + 1} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				turn := w.turn("ns", "t", maxSessionLogs+1)
				w.subscribe(turn)
				w.show(turn)
				<-time.After(turnTime - deltaEvery/2)
				text := strings.Repeat("x", size)
				for _, call := range turn.Status.ToolCalls {
					w.write(podOf(turn, call.ID), text+"\ncapstan-result "+strings.Repeat("0", 32)+" 2000\n")
				}
				<-time.After(2 * turnTime)
				for _, call := range turn.Status.ToolCalls {
					if got := w.text(turn, call.ID); got != text+"\n" {
						t.Errorf("%d bytes of call %s were passed on, not %d", len(got), call.ID, len(text)+1)
					}
				}
			})
		})
	}
}

// The clock of a place that is given back at the moment in which it strikes is not set again.
func TestAPlaceThatIsGivenBackIsNotWatched(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(t.Context())
		of, ended := &call{session: &session{}}, false
		over := w.yield(ctx, of, func(error) { ended = true })
		w.Follower.mu.Lock()
		<-time.After(turnTime)
		over()
		cancel()
		w.Follower.mu.Unlock()
		synctest.Wait()
		w.countWaiting(of.session, 1)
		<-time.After(2 * turnTime)
		if ended {
			t.Error("a place that was given back is wanted")
		}
	})
}
