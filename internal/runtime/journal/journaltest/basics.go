package journaltest

import (
	"errors"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
)

func storeReadsWhatItCreated(f *fixture) {
	ctx, result := f.t.Context(), "<b>\u2028&\u0001 \"quoted\" ü"
	of := turn("a")
	entry := &journal.Entry{
		Session: f.session.Name, Ordinal: 1, Time: event.MicroTime(time.Now()), Turn: &of, Step: 3, Part: 2, Final: true,
		Parts: []int64{1}, Digest: strings.Repeat("a", 64), Events: respond(of, 3, 1, result).Events,
		Calls: []journal.PlannedCall{{ID: "1-0", Name: "tool", Arguments: result}},
		Settled: &journal.SettledCall{
			ID:        "1-1",
			Result:    &result,
			State:     v1alpha1.ToolCallStateSucceeded,
			Reason:    v1alpha1.ToolCallReasonCompleted,
			StartedAt: ptr(event.MicroTime(time.Now())),
		},
		Claimed: &journal.ClaimedCall{ID: "1-1", Holder: "holder"},
		Steered: []journal.RecordedTurn{{Name: "b", UID: "b-uid", Digest: strings.Repeat("b", 64), SteeredInto: &of}},
		Transition: &v1alpha1.TurnProgress{
			Phase: v1alpha1.TurnPhaseAct, Plan: &v1alpha1.TurnPlan{Step: 4, Phase: v1alpha1.PlanPhaseAct},
			ToolCalls: []v1alpha1.ToolCall{
				{
					ID:       "1-0",
					Name:     "tool",
					Executor: v1alpha1.ToolExecutorJob,
					State:    v1alpha1.ToolCallStatePending,
					Timeout:  &metav1.Duration{Duration: time.Minute},
				},
			},
			Summary: &v1alpha1.TurnSummary{Usage: v1alpha1.Usage{InputTokens: 3}, StartedAt: ptr(event.MicroTime(time.Now()))},
			Error:   &v1alpha1.TurnError{Code: v1alpha1.ErrorCodeProcessingError, Fields: map[string]string{"a": "b"}},
		},
	}
	e, err := format.Encode(entry)
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := f.store.Get(ctx, f.session, 1); !errors.Is(err, journal.ErrNotFound) {
		f.t.Fatalf("reading a free ordinal returned %v", err)
	}
	if err := f.store.Create(ctx, f.session, e); err != nil {
		f.t.Fatal(err)
	}
	if err := f.store.Create(ctx, f.session, e); !errors.Is(err, journal.ErrExists) {
		f.t.Fatalf("creating an entry twice returned %v", err)
	}
	if _, err := f.store.Get(ctx, f.another().session, 1); !errors.Is(err, journal.ErrNotFound) {
		f.t.Fatalf("reading the log of another Session returned %v", err)
	}
	got, err := f.store.Get(ctx, f.session, 1)
	if err != nil {
		f.t.Fatal(err)
	}
	f.same("the size of the entry", len(f.json(got)), len(f.json(e)))
	var gotValue, wantValue any
	f.unjson([]byte(f.json(got)), &gotValue)
	f.unjson([]byte(f.json(e)), &wantValue)
	f.same("the entry", gotValue, wantValue)
	read, err := format.Decode(got)
	if err != nil {
		f.t.Fatal(err)
	}
	f.unjson([]byte(f.json(read)), &gotValue)
	f.unjson([]byte(f.json(entry)), &wantValue)
	f.same("the content of the entry", gotValue, wantValue)
}

func emptyLog(f *fixture) {
	log := f.log()
	f.same("the view", f.view(log, 0), &journal.View{NextSequence: 1, Turns: map[string]journal.RecordedTurn{}})
	closed, err := log.Find(f.t.Context(), f.session, "uid", 1, 1)
	if closed != nil || err != nil {
		f.t.Fatalf("finding a step in an empty log gives %v, %v", closed, err)
	}
	settled, err := log.Settled(f.t.Context(), f.session, "uid", 1, 1)
	if len(settled) > 0 || err != nil {
		f.t.Fatalf("the settled calls of an empty log are %v, %v", settled, err)
	}
	outcome, err := log.Outcome(f.t.Context(), f.session, "missing", 0)
	if outcome != nil || err != nil {
		f.t.Fatalf("the outcome of a Turn that the log does not know is %v, %v", outcome, err)
	}
	if _, err := log.Step(f.t.Context(), f.session, "uid", 1); !errors.Is(err, journal.ErrCorrupt) {
		f.t.Fatalf("reading a step that does not exist returned %v", err)
	}
}

func closedOnce(f *fixture) {
	ctx, log, of := f.t.Context(), f.log(), turn("a")
	r := respond(of, 1, 1, "hello")
	r.Calls = []journal.PlannedCall{
		{ID: "1-0", ProviderID: "p", Name: "tool", Arguments: "{\"a\": \"\xff\"}", Refusal: "no"},
	}
	closed := f.append(log, r)
	if closed.Adopted || closed.Ordinal != 1 || closed.Transition.Plan.OpenedAtOrdinal != 2 || closed.Digest != r.Digest ||
		closed.Time.IsZero() {
		f.t.Fatalf("the step was closed as %s", f.json(closed))
	}
	if r.Transition.Plan.OpenedAtOrdinal != 0 {
		f.t.Fatal("the caller's record was changed")
	}
	adopted := f.append(f.log(), respond(of, 1, 1, "something else"))
	if !adopted.Adopted {
		f.t.Fatal("the step was closed again")
	}
	found, err := f.log().Find(ctx, f.session, of.UID, 1, 1)
	if err != nil {
		f.t.Fatal(err)
	}
	read, err := f.log().Step(ctx, f.session, of.UID, 1)
	if err != nil {
		f.t.Fatal(err)
	}
	closed.Adopted = true
	f.same("the adopted step", adopted, closed)
	f.same("the step that was found", found, closed)
	f.same("the step that was read", read, closed)
	adopted.Transition.Plan.Step, read.Transition.Plan.OpenedAtOrdinal, closed.Transition.Plan.Phase = 99, 99, "changed"
	for _, l := range []*journal.Log{log, f.log()} {
		again, err := l.Find(ctx, f.session, of.UID, 1, 1)
		if err != nil {
			f.t.Fatal(err)
		}
		f.same("the step after callers have changed their transitions", again, found)
	}
	if open, err := log.Find(ctx, f.session, of.UID, 2, 2); open != nil || err != nil {
		f.t.Fatalf("the next step is found as %v, %v", open, err)
	}
	if _, err := log.Step(ctx, f.session, "another-uid", 1); err == nil {
		f.t.Fatal("the step of another Turn was read")
	}
	if moved := f.append(f.log(), respond(of, 2, 2, "x")); moved.Ordinal != 2 {
		f.t.Fatalf("the next step was closed at ordinal %d", moved.Ordinal)
	}
	if found, err := log.Find(ctx, f.session, of.UID, 2, 2); err != nil || found == nil || found.Ordinal != 2 {
		f.t.Fatalf("a step that another Log has closed since is found as %v, %v", found, err)
	}
	warm := f.view(log, 0)
	f.check()
	f.same("the warm view", warm, f.view(f.log(), 0))
	log.Forget(f.session)
	if used := log.CachedBytes(); used != 0 {
		f.t.Fatalf("%d bytes are cached of a Session that was forgotten", used)
	}
}

func viewStays(f *fixture) {
	log := f.log()
	f.append(log, respond(turn("a"), 1, 1, "first"))
	first := f.view(log, 0)
	before := f.json(first)
	f.append(log, respond(turn("b"), 1, 2, "second"))
	second := f.view(log, 0)
	f.append(log, respond(turn("c"), 1, 3, "third"))
	if after := f.json(first); after != before {
		f.t.Fatalf("a view became\n%s\nand was\n%s", after, before)
	}
	if len(second.Messages) != 4 || len(second.Turns) != 2 || second.Head != 2 {
		f.t.Fatalf("the second view is %s", f.json(second))
	}
}

// viewTo: a view to an entry that is known to exist reads the entries up to it that the cache lacks, and none behind.
func viewTo(f *fixture) {
	f.append(f.log(), respond(turn("a"), 1, 1, "first"))
	counting := Wrap(f.store)
	log := journal.New(counting, journal.Options{})
	f.view(log, 0)
	for i, name := range []string{"b", "c", "d"} {
		f.append(f.log(), respond(turn(name), 1, int64(i)+2, "more"))
	}
	for _, step := range []struct{ to, head int64 }{{0, 1}, {1, 1}, {3, 3}, {2, 3}, {3, 3}, {4, 4}, {9, 4}} {
		counting.Reset()
		before := f.known(log)
		view, err := log.ViewTo(f.t.Context(), f.session, step.to)
		if err != nil || view.Head != step.head {
			f.t.Fatalf("a view to %d ends at %d, %v; want %d", step.to, view.Head, err, step.head)
		}
		missing := 0 // the read that finds that an entry does not exist
		if step.to > step.head {
			missing = 1
		}
		if want := int(step.head-before) + missing; counting.Reads() != want {
			f.t.Errorf("a view from %d to %d takes %d reads, want %d", before, step.to, counting.Reads(), want)
		}
	}
	cold, err := f.log().ViewTo(f.t.Context(), f.session, 2)
	if err != nil || cold.Head != 4 {
		f.t.Errorf("a view without a cache ends at %d, %v", cold.Head, err)
	}
}

// known is the head of the view that a journal has in its cache.
func (f *fixture) known(log *journal.Log) int64 {
	f.t.Helper()
	view, err := log.ViewTo(f.t.Context(), f.session, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	return view.Head
}

func refusesUnreadable(f *fixture) {
	log, of := f.log(), turn("a")
	twice := respond(of, 1, 1, "a", "b")
	twice.Events[1].ID = twice.Events[2].ID
	malformed := respond(of, 1, 1, "a")
	malformed.Events[1].Data = &v1alpha1.JSON{Raw: []byte(`{"message":7}`)}
	calls := respond(of, 1, 1, "a")
	calls.Calls = []journal.PlannedCall{{ID: "1-0", Name: "a"}, {ID: "1-0", Name: "b"}}
	foreign := respond(of, 1, 1, "a")
	foreign.Parts = []int64{1}
	for name, r := range map[string]journal.Record{
		"an event id twice": twice, "data of another form": malformed, "a call id twice": calls,
		"a part that settles nothing": foreign,
	} {
		if closed, err := log.Append(f.t.Context(), f.session, r); err == nil {
			f.t.Fatalf("%s was accepted: %s", name, f.json(closed))
		}
	}
	large := respond(of, 1, 1, "a")
	large.Events[0].Context = map[string]string{"turn_id": strings.Repeat("x", journal.MaxEntryBytes)}
	if _, err := log.Append(f.t.Context(), f.session, large); !errors.Is(err, journal.ErrTooLarge) {
		f.t.Fatalf("an event with a context as large as an entry returned %v", err)
	}
	transition := respond(of, 1, 1, "a")
	transition.Transition.Output = strings.Repeat("x", journal.MaxEntryBytes)
	if _, err := log.Append(f.t.Context(), f.session, transition); !errors.Is(err, journal.ErrTooLarge) {
		f.t.Fatalf("a transition as large as an entry returned %v", err)
	}
	if entries := f.entries(); len(entries) != 0 {
		f.t.Fatalf("%d entries were written", len(entries))
	}
}

func refusesGap(f *fixture) {
	f.fill(3)
	for _, log := range []*journal.Log{f.log(), f.log()} {
		if _, err := log.Append(
			f.t.Context(),
			f.session,
			respond(turn("a"), 1, 5, "x"),
		); !errors.Is(
			err,
			journal.ErrCorrupt,
		) {
			f.t.Fatalf("closing a step that was opened behind the head returned %v", err)
		}
	}
	if closed := f.append(f.log(), respond(turn("a"), 1, 4, "x")); closed.Ordinal != 4 {
		f.t.Fatalf("the step was closed at ordinal %d", closed.Ordinal)
	}
	f.check()
}

func ptr[T any](v T) *T { return &v }

func ordinals(refs []journal.SettledRef) []int64 {
	all := make([]int64, 0, len(refs))
	for _, ref := range refs {
		all = append(all, ref.Ordinal)
	}
	return slices.Clip(all)
}
