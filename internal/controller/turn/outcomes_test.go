package turn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/journaltest"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// partStore calls a function for every part with outcomes that is created. Its error is that of the store.
type partStore struct {
	journal.Store
	parts  int
	onPart func(create func() error) error
}

func (p *partStore) Create(ctx context.Context, s journal.Session, e *v1alpha1.JournalEntrySpec) error {
	create := func() error { return p.Store.Create(ctx, s, e) }
	if len(journaltest.Content(e).Outcomes) == 0 {
		return create()
	}
	p.parts++
	if p.onPart == nil {
		return create()
	}
	return p.onPart(create)
}

// parts makes the journal call a function for every part with outcomes.
func (w *world) parts(onPart func(create func() error) error) *partStore {
	store := &partStore{Store: w.store, onPart: onPart}
	w.store = store
	return store
}

// long is a text of 64 KiB that begins with a word.
func long(word string) string {
	return word + strings.Repeat(".", 64<<10-len(word))
}

// waitsForResults reports whether the Turn waits for ToolResults.
func (w *world) waitsForResults() bool {
	return w.turn().Status.Phase == v1alpha1.TurnPhaseWaitingForToolResults
}

// textsInMemory returns the bytes of the texts that a process has in memory for a Turn.
func (m *manager) textsInMemory(turn *v1alpha1.Turn) int {
	step := &m.memories.of(client.ObjectKeyFromObject(turn), turn.UID).step
	n := 0
	for _, call := range turn.Status.ToolCalls {
		row := step.known.Row(call.ID)
		if row.Outcome != nil {
			n += len(row.Outcome.Error)
			if row.Outcome.Result != nil {
				n += len(*row.Outcome.Result)
			}
		}
		for _, recorded := range []journal.SettledRef{row.RecordedOutcome, row.RecordedResult} {
			for _, text := range []*string{recorded.Call.Result, recorded.Call.Error} {
				if text != nil {
					n += len(*text)
				}
			}
		}
	}
	for _, call := range step.known.Planned {
		n += len(call.Arguments) + len(call.Refusal)
	}
	for _, run := range step.requests {
		n += int(run.Bytes())
	}
	return n
}

// recordedCalls returns the events and the outcomes of the calls of the first act step in the journal, without times.
func (w *world) recordedCalls() string {
	w.t.Helper()
	closed, err := journal.New(w.store, journal.Options{Clock: w.present}).
		Find(w.t.Context(), turnstate.JournalOf(w.session()), w.turn().UID, 2, 1)
	if err != nil || closed == nil {
		w.t.Fatalf("the act step is closed by %v, %v", closed, err)
	}
	var lines []string
	for _, e := range closed.Events {
		line := e.Type + " " + e.Context["tool_image"]
		if e.Type == event.TypeToolCompleted {
			m, _, err := event.MessageOf(e)
			if err != nil {
				w.t.Fatal(err)
			}
			line += fmt.Sprintf(" %s %s %q %q", m.ToolCallID, m.ToolName, m.PlainText(), m.Error)
		}
		lines = append(lines, line)
	}
	for _, call := range closed.Transition.ToolCalls {
		lines = append(
			lines,
			fmt.Sprintf("%s %s %s %q %t", call.ID, call.State, call.Reason, call.Preview, call.PodName != ""),
		)
	}
	return strings.Join(lines, "\n")
}

// mixedTurn has calls of every kind in one step, and waits for a client at last.
func mixedTurn(t *testing.T) *world {
	w := newWorld(t)
	w.respond = func(name string) string { return long("result of " + name) }
	return w.begin(
		builder.JobTool("work", v1alpha1.SideEffectPure).Obj(),
		builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj(),
		w.site("look", v1alpha1.SideEffectPure),
		w.site("send", v1alpha1.SideEffectAtMostOnce),
		builder.ClientTool("early").Obj(),
		builder.ClientTool("human").Obj(),
	)
}

func TestATurnThatWaitsHoldsNoTexts(t *testing.T) {
	w := mixedTurn(t)
	store := w.parts(nil)
	w.answer("early", long("so"))
	m := w.manager(0)
	m.until(
		"the wait",
		func() bool { return w.waitsForResults() && w.call("early").State == v1alpha1.ToolCallStateSucceeded },
	)
	if n := m.textsInMemory(w.turn()); n > 4<<10 {
		t.Errorf("a Turn that waits holds %d bytes", n)
	}
	if store.parts != 1 {
		t.Errorf("%d parts were written", store.parts)
	}
	shown := w.turn().Status.ToolCalls
	for range 3 {
		if _, err := m.pass(); err != nil {
			t.Fatal(err)
		}
		w.sleep(time.Minute)
	}
	if now := w.turn().Status.ToolCalls; fmt.Sprint(now) != fmt.Sprint(shown) || store.parts != 1 {
		t.Errorf("a Turn that waits has written: %d parts, %v", store.parts, now)
	}
	w.answer("human", "yes")
	m.until("the end", w.finished)
	for _, name := range []string{"look", "send"} {
		if got := w.resultText(name); got != long("result of "+name) || w.starts(name) != 1 {
			t.Errorf("%s was sent %d times, and the model received %d bytes", name, w.starts(name), len(got))
		}
	}
	if got := w.resultText("early"); got != long("so") {
		t.Errorf("the model received %d bytes of the client's result", len(got))
	}
}

// Whatever disturbs the part, the journal records the same outcomes as without any wait.
func TestOutcomesOfAWaitAreThoseOfAnUndisturbedTurn(t *testing.T) {
	undisturbed := mixedTurn(t)
	undisturbed.answer("early", "so")
	undisturbed.answer("human", "yes")
	undisturbed.manager(0).until("the end", undisturbed.finished)
	want := undisturbed.recordedCalls()
	crash := errors.New("the process has died")
	for name, test := range map[string]struct {
		onPart func(w *world, n *int) func(create func() error) error
		// meanwhile runs while the Turn waits. It returns the process that goes on.
		meanwhile func(w *world, m *manager) *manager
		sent      int
	}{
		"nothing": {sent: 1},
		"the process dies before the part": {
			onPart: func(_ *world, n *int) func(func() error) error {
				return func(create func() error) error {
					*n++
					if *n <= 3 {
						return crash
					}
					return create()
				}
			},
			meanwhile: func(w *world, _ *manager) *manager { return w.manager(0) }, sent: 2,
		},
		"the process dies after the part": {
			onPart: func(_ *world, n *int) func(func() error) error {
				return func(create func() error) error {
					*n++
					if *n == 1 {
						return errors.Join(create(), crash)
					}
					return crash
				}
			},
			meanwhile: func(w *world, _ *manager) *manager { return w.manager(0) }, sent: 1,
		},
		"the process dies while the Turn waits": {
			meanwhile: func(w *world, _ *manager) *manager { return w.manager(0) }, sent: 1,
		},
		"the Jobs are gone": {
			meanwhile: func(w *world, _ *manager) *manager {
				w.deleteJob(w.jobOf("work"))
				w.deleteJob(w.jobOf("pay"))
				return w.manager(0)
			},
			sent: 1,
		},
		"another process leads and comes back": {
			meanwhile: func(w *world, m *manager) *manager {
				w.manager(0).until("the wait", w.waitsForResults)
				return m
			},
			sent: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, n := mixedTurn(t), 0
			store := w.parts(nil)
			if test.onPart != nil {
				store.onPart = test.onPart(w, &n)
			}
			w.answer("early", "so")
			m := w.manager(0)
			m.until(
				"the wait",
				func() bool { return w.waitsForResults() && w.call("early").State == v1alpha1.ToolCallStateSucceeded },
			)
			store.onPart = nil
			if test.meanwhile != nil {
				m = test.meanwhile(w, m)
			}
			w.answer("human", "yes")
			m.until("the end", w.finished)
			if got := w.recordedCalls(); got != want {
				t.Errorf("the journal has\n%s\nwant\n%s", got, want)
			}
			if w.starts("send") != 1 || w.starts("pay") != 1 || w.starts("look") != test.sent || len(w.asked) != 2 {
				t.Errorf(
					"sent %d and %d, started %d, %d model calls",
					w.starts("send"),
					w.starts("look"),
					w.starts("pay"),
					len(w.asked),
				)
			}
		})
	}
}

// Two processes have observed other outcomes of a call that may be repeated. The one in the journal counts.
func TestTheOutcomeInTheJournalCountsForEveryProcess(t *testing.T) {
	w := newWorld(t)
	w.respond = func(name string) string { return fmt.Sprintf("result %d of %s", w.starts(name), name) }
	w.begin(w.site("look", v1alpha1.SideEffectPure), builder.ClientTool("human").Obj())
	var second *manager
	store := w.parts(nil)
	store.onPart = func(create func() error) error {
		// The second process takes over while the first is about to write.
		store.onPart = nil
		second = w.manager(0)
		second.until("the wait", w.waitsForResults)
		return create()
	}
	first := w.manager(0)
	first.until("both", func() bool { return second != nil && w.waitsForResults() })
	if w.starts("look") != 2 {
		t.Fatalf("the request was sent %d times", w.starts("look"))
	}
	w.answer("human", "yes")
	first.until("the end", w.finished)
	if got := w.resultText("look"); got != "result 2 of look" {
		t.Errorf("the model received %q", got)
	}
	if call := w.call("look"); call.Preview != "result 2 of look" {
		t.Errorf("the status shows %q", call.Preview)
	}
}

func TestAnEndTakesInTheOutcomesOfAWait(t *testing.T) {
	for name, end := range map[string]func(w *world, m *manager) *manager{
		"cancelled":                  func(w *world, m *manager) *manager { w.cancel(); return m },
		"cancelled, a new process":   func(w *world, _ *manager) *manager { w.cancel(); return w.manager(0) },
		"expired":                    func(w *world, m *manager) *manager { w.sleep(2 * time.Hour); return m },
		"expired, a new process":     func(w *world, _ *manager) *manager { w.sleep(2 * time.Hour); return w.manager(0) },
		"a message, the same leader": steered,
	} {
		t.Run(name, func(t *testing.T) {
			w := mixedTurn(t)
			turn := w.turn()
			w.change(turn, func() { turn.Spec.WaitTimeout = &metav1.Duration{Duration: time.Hour} })
			w.answer("early", "so")
			m := w.manager(0)
			m.until(
				"the wait",
				func() bool { return w.waitsForResults() && w.call("early").State == v1alpha1.ToolCallStateSucceeded },
			)
			w.deleteJob(w.jobOf("work"))
			m = end(w, m)
			m.until("the end", w.finished)
			for name, want := range map[string]string{
				"look": long("result of look"), "send": long("result of send"), "work": "result of work", "early": "so",
			} {
				if got := w.resultText(name); got != want {
					t.Errorf("of %s the model received %d bytes: %.80q", name, len(got), got)
				}
			}
		})
	}
}

func steered(w *world, m *manager) *manager {
	steer := w.newTurn("demo-2", "Never mind.")
	steer.Spec.Delivery = v1alpha1.DeliverySteer
	w.create(steer)
	return m
}

// A part that cannot be written loses no outcome, costs no model call, and does not keep the Turn from going on.
func TestAPartThatCannotBeWritten(t *testing.T) {
	for name, refuse := range map[string]func(create func() error) error{
		"a quota": func(func() error) error { return errors.Join(journal.ErrRefused, errQuota) },
		"an error": func(
			func() error,
		) error {
			return errors.New("etcdserver: mvcc: database space exceeded")
		},
		"an error after its creation": func(
			create func() error,
		) error {
			return errors.Join(create(), errors.New("timeout"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := mixedTurn(t)
			store := w.parts(refuse)
			w.answer("early", "so")
			m := w.manager(0)
			m.until(
				"the wait",
				func() bool { return w.waitsForResults() && w.call("early").State == v1alpha1.ToolCallStateSucceeded },
			)
			for range 40 {
				_, _ = m.pass()
				w.sleep(10 * time.Second)
			}
			if !w.waitsForResults() || len(w.asked) != 1 || w.finished() {
				t.Fatalf("after a while the Turn is %s, %d model calls", w.turn().Status.Phase, len(w.asked))
			}
			store.onPart = nil
			w.answer("human", "yes")
			m.until("the end", w.finished)
			if w.turn().Status.Phase != v1alpha1.TurnPhaseSucceeded || len(w.asked) != 2 {
				t.Errorf("the Turn is %s, %d model calls", w.turn().Status.Phase, len(w.asked))
			}
			for _, name := range []string{"look", "send"} {
				if got := w.resultText(name); got != long("result of "+name) {
					t.Errorf("of %s the model received %d bytes", name, len(got))
				}
			}
			if w.starts("send") != 1 {
				t.Errorf("the request was sent %d times", w.starts("send"))
			}
		})
	}
}

// An outcome that the journal does not accept is kept for a while, within the share of its namespace, and observed
// again after that.
func TestOutcomesThatTheJournalRefusesAreHeldForAWhile(t *testing.T) {
	w := newWorld(t)
	w.respond = func(name string) string { return long("result of " + name) }
	w.begin(
		builder.JobTool("work", v1alpha1.SideEffectPure).Obj(),
		w.site("look", v1alpha1.SideEffectPure),
		builder.ClientTool("human").Obj(),
	)
	store := w.parts(func(func() error) error { return errors.Join(journal.ErrRefused, errQuota) })
	m := w.manager(0)
	m.until("the wait", w.waitsForResults)
	held := func() int64 { return m.models.Held().Bytes }
	if n := m.textsInMemory(w.turn()); n < 64<<10 || held() < 64<<10 {
		t.Errorf("%d bytes are in memory, and the namespace holds %d", n, held())
	}
	for range 11 {
		_, _ = m.pass()
		w.sleep(time.Minute)
	}
	_, _ = m.pass()
	if n := m.textsInMemory(w.turn()); n > 4<<10 || held() != 0 {
		t.Errorf("after 11 minutes %d bytes are in memory, and the namespace holds %d", n, held())
	}
	store.onPart = nil
	w.answer("human", "yes")
	m.until("the end", w.finished)
	if got := w.resultText("work"); got != "result of work" || w.starts("work") != 1 {
		t.Errorf("the Job was started %d times, and the model received %q", w.starts("work"), got)
	}
	if got := w.resultText("look"); got != long("result of look") {
		t.Errorf("the model received %d bytes", len(got))
	}
}

func TestAWaitForWhichTheJournalHasNoRoomEndsTheTurn(t *testing.T) {
	w := mixedTurn(t)
	session := w.session()
	w.change(session, func() { session.Spec.JournalLimit = resource.NewQuantity(100<<10, resource.BinarySI) })
	w.answer("early", "so")
	m := w.manager(0)
	m.until("the end", w.finished)
	turn := w.turn()
	if turn.Status.Error == nil || turn.Status.Error.Code != v1alpha1.ErrorCodeJournalFull || len(w.asked) != 1 {
		t.Errorf("the Turn ends with %+v, %d model calls", turn.Status.Error, len(w.asked))
	}
	if got := w.resultText("look"); !strings.HasPrefix(got, "result of look") {
		t.Errorf("the model received %.80q", got)
	}
}

// A Turn whose own call runs on holds little for long.
func TestWhatATurnHoldsWhileItsOwnCallRunsOn(t *testing.T) {
	for name, test := range map[string]struct {
		text  string
		parts int
	}{
		"little": {strings.Repeat("x", 4<<10), 0},
		"much":   {long("much"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.respond = func(string) string { return test.text }
			w.begin(w.site("look", v1alpha1.SideEffectPure), builder.JobTool("endless", v1alpha1.SideEffectAtMostOnce).Obj())
			store := w.parts(nil)
			m := w.manager(0)
			m.until("the call", w.shows("look", v1alpha1.ToolCallStateSucceeded))
			if store.parts > 0 {
				t.Errorf("a part was written at once")
			}
			m.until("the run", w.shows("endless", v1alpha1.ToolCallStateRunning))
			for range 30 {
				if _, err := m.pass(); err != nil {
					t.Fatal(err)
				}
				w.sleep(time.Second)
			}
			if store.parts != test.parts {
				t.Errorf("%d parts were written", store.parts)
			}
			if n := m.textsInMemory(w.turn()); n > 16<<10 {
				t.Errorf("%d bytes are in memory", n)
			}
			w.ends(w.podOf(w.jobOf("endless")), result.Report{Outcome: result.Exited, Started: true, Result: "at last"})
			m.until("the end", w.finished)
			if got := w.resultText("look"); got != test.text {
				t.Errorf("the model received %d bytes", len(got))
			}
		})
	}
}
