package turn

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// Two managers lead at once. One ends the Turn, the other is about to let the pod of an AtMostOnce call start:
// whichever comes first, the journal does not record a call as not executed if its pod has started.
func TestTwoLeadersDoNotDenyWhatRuns(t *testing.T) {
	for name, test := range map[string]struct {
		// end makes the rival end the Turn.
		end func(*world)
		// late makes it do so after the first leader's write of the pod instead of before it. early makes it read the
		// step beforehand.
		late, early bool
	}{
		"the deadline passes before the pod is recorded": {},
		"the deadline passes after the pod is recorded":  {late: true},
		"it is cancelled before the pod is recorded":     {end: (*world).cancel},
		"it is cancelled after the pod is recorded":      {end: (*world).cancel, late: true},
		"its Job was deleted before the pod is recorded": {end: dropPayJob, early: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.begin(builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj())
			if test.end == nil {
				turn, limit := w.turn(), int64(60)
				w.change(turn, func() { turn.Spec.ActiveDeadlineSeconds = &limit })
			}
			var skew time.Duration
			if test.end == nil {
				skew = time.Hour
			}
			w.hooks = interceptor.Funcs{
				DeleteAllOf: func(context.Context, client.WithWatch, client.Object, ...client.DeleteAllOfOption) error {
					return errors.New("the API server is slow")
				},
			}
			rival := w.manager(skew)
			ended := false
			rivalEnds := func() {
				if ended {
					return
				}
				ended = true
				if test.end != nil {
					test.end(w)
				}
				for range 6 {
					_, _ = rival.pass()
				}
			}
			w.hooks = interceptor.Funcs{SubResourcePatch: func(
				ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch,
				options ...client.SubResourcePatchOption,
			) error {
				data, err := patch.Data(o)
				if err != nil {
					return err
				}
				records := strings.Contains(string(data), "podUID")
				if records && !test.late {
					rivalEnds()
				}
				err = c.SubResource(sub).Patch(ctx, o, patch, options...)
				if records && test.late {
					rivalEnds()
				}
				return err
			}}
			leader := w.manager(0)
			maker := leader
			if test.early {
				maker = rival
			}
			maker.withoutCluster("the Job", func() bool { return w.jobOf("pay") != nil })
			w.play()
			for range 40 {
				_, _ = leader.pass()
				if ended {
					w.play()
					_, _ = rival.pass()
				}
				w.sleep(time.Second)
			}
			if !ended {
				t.Fatal("the rival never came")
			}
			// The Jobs are still there, so that their deletion cannot hide anything.
			for range 10 {
				w.play()
			}
			text, starts := w.resultText("pay"), w.starts("pay")
			if text == "" {
				t.Fatalf("the journal has no outcome of the call; phase %s", w.turn().Status.Phase)
			}
			if strings.Contains(text, "changed nothing") && starts > 0 {
				t.Errorf("its pod has started %d times, and the journal reports %q", starts, text)
			}
			if test.late && starts == 0 && strings.Contains(text, "changed nothing") {
				t.Errorf("its pod was recorded, and the journal reports %q", text)
			}
			if !test.late && !test.early && !strings.Contains(text, "changed nothing") {
				t.Errorf("it was withdrawn in time, and the journal reports %q", text)
			}
		})
	}
}

func dropPayJob(w *world) {
	w.deleteJob(w.jobOf("pay"))
}

// The cost of a withdrawal: one write, and none if no call needs it.
func TestAWithdrawalIsOneWrite(t *testing.T) {
	for name, test := range map[string]struct {
		class  v1alpha1.SideEffect
		writes int
	}{
		"AtMostOnce": {v1alpha1.SideEffectAtMostOnce, 2},
		"Pure":       {v1alpha1.SideEffectPure, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.begin(builder.JobTool("one", test.class).Obj(), builder.JobTool("two", test.class).Obj())
			m := w.manager(0)
			m.withoutCluster("the Jobs", func() bool { return len(w.jobs()) == 2 })
			w.cancel()
			writes := 0
			w.hooks = interceptor.Funcs{
				SubResourcePatch: func(
					ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
					options ...client.SubResourcePatchOption,
				) error {
					writes++
					return c.SubResource(sub).Patch(ctx, o, p, options...)
				},
			}
			w.manager(0).withoutCluster("the end", w.finished)
			if writes != test.writes {
				t.Errorf("%d writes of the status, want %d", writes, test.writes)
			}
		})
	}
}
