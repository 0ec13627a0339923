package step

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/journaltest"
	"github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// finalizing is a Config whose partial responses are kept.
func finalizing() turnstate.Config {
	c := with(jobTool("look"))
	c.Model.Spec.Recovery = v1alpha1.ModelRecoveryFinalize
	c.Model.Spec.Model = "big"
	return c
}

// line is the store as one process reaches it: calls fail as long as it is down, and creates also when fails returns an
// error.
type line struct {
	journal.Store
	down atomic.Bool
	// fails returns the errors of creates while the line is up; nil for none.
	fails func(e *v1alpha1.JournalEntrySpec) error
}

var errDown = errors.New("the store is not reached")

func (l *line) Get(ctx context.Context, s journal.Session, ordinal int64) (*v1alpha1.JournalEntrySpec, error) {
	if l.down.Load() {
		return nil, errDown
	}
	return l.Store.Get(ctx, s, ordinal)
}

func (l *line) Create(ctx context.Context, s journal.Session, e *v1alpha1.JournalEntrySpec) error {
	if l.down.Load() {
		return errDown
	}
	if l.fails != nil {
		if err := l.fails(e); err != nil {
			return err
		}
	}
	return l.Store.Create(ctx, s, e)
}

// process is a bench that dies: its later actions have no effect.
type process struct {
	*bench
	line *line
	ctx  context.Context
	kill context.CancelFunc
}

func newProcess(t *testing.T, store journal.Store) *process {
	t.Helper()
	l := &line{Store: store}
	p := &process{bench: onStore(t, l), line: l}
	p.ctx, p.kill = context.WithCancel(t.Context())
	return p
}

// dies ends the process within a call of its model.
func (p *process) dies() (*model.Response, error) {
	p.line.down.Store(true)
	p.kill()
	return nil, p.ctx.Err()
}

// respondsAndDies makes the model respond in pieces, so many seconds apart, and the process die after them.
func (p *process) respondsAndDies(apart time.Duration, pieces ...model.Partial) {
	p.answer = func(r model.Request) (*model.Response, error) {
		for _, piece := range pieces {
			r.ReportPartial(piece)
			passes(apart)
		}
		return p.dies()
	}
}

// run runs the open reason step up to the death of the process.
func (p *process) run(turn turnstate.Turn, c turnstate.Config) {
	p.t.Helper()
	if closed, err := p.ReasonInPlace(p.ctx, turn, c, nil); !errors.Is(err, context.Canceled) {
		p.t.Fatalf("the process lives, and has closed %v, error %v", closed, err)
	}
}

// passes advances the clock and runs all due work.
func passes(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// pieces returns the partial responses in a journal.
func pieces(t *testing.T, store journal.Store) []journal.PartialAnswer {
	t.Helper()
	var found []journal.PartialAnswer
	for o := int64(1); ; o++ {
		e, err := store.Get(t.Context(), session, o)
		if errors.Is(err, journal.ErrNotFound) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		if journaltest.Content(e).Partial != nil {
			found = append(found, *journaltest.Content(e).Partial)
		}
	}
}

// bubble runs a test with a time of its own.
func bubble(t *testing.T, test func(t *testing.T, store journal.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, memory.New()) })
}

// Rules: PART-02, VEC-24.
func TestAPartialResponseIsUsedAsTheWhole(t *testing.T) {
	bubble(t, func(t *testing.T, store journal.Store) {
		first := newProcess(t, store)
		first.respondsAndDies(
			3*time.Second,
			model.Partial{Text: "The answer"},
			model.Partial{Text: "The answer is"},
			model.Partial{Text: "The answer is 4"},
			model.Partial{Text: "The answer is 42"},
		)
		first.run(newTurn("demo-1"), finalizing())

		b := onStore(t, store)
		turn, closed := b.reason(newTurn("demo-1"), finalizing())
		if len(b.asked) != 0 {
			t.Errorf("the model was asked again, %d times", len(b.asked))
		}
		b.expectTypes(
			closed.Events,
			openingTypes,
			"reason.started output.message.started output.message.completed reason.recovered reason.completed",
			"turn.completed session.idled",
		)
		const kept = "The answer is 42"
		p := turn.Progress
		if p.Phase != v1alpha1.TurnPhaseSucceeded || p.Output != kept || p.Recovered != v1alpha1.TurnRecoveryFinalized ||
			p.Plan.StopReason != v1alpha1.StopReasonEndTurn {
			t.Errorf("progress %+v, plan %+v", p, p.Plan)
		}
		if p.Summary.ModelCalls != 1 || p.Summary.Usage != (v1alpha1.Usage{}) || p.Summary.UnpricedModelCalls != 1 {
			t.Errorf("summary %+v", p.Summary)
		}
		sent := b.transcript()
		if len(sent) != 2 || sent[1].PlainText() != kept || sent[1].ID != event.MessageID("turn-uid", 1) {
			t.Errorf("the conversation is %+v", sent)
		}
		expectRecovered(t, closed.Events, kept)

		// The next Turn goes on from there.
		next := newTurn("demo-2")
		next.Ref.UID, next.Progress = "uid-2", plan.Begin(closed.Ordinal+1, b.micro())
		after, _ := b.reason(next, finalizing())
		if got := b.asked[0].Messages; len(got) != 3 || got[1].PlainText() != kept {
			t.Errorf("the model reads %+v", got)
		}
		if after.Progress.Recovered != "" {
			t.Error("the next Turn is marked as recovered")
		}
	})
}

// expectRecovered checks the events of a step that was finalized.
func expectRecovered(t *testing.T, events []event.Event, text string) {
	t.Helper()
	for _, e := range events {
		var data map[string]any
		if err := json.Unmarshal(e.Data.Raw, &data); err != nil {
			t.Fatal(err)
		}
		wrong := false
		switch e.Type {
		case event.TypeReasonRecovered:
			wrong = data["mode"] != "finalize" || data["length"] != float64(len(text))
		case event.TypeReasonStarted, event.TypeOutputMessageStarted:
			wrong = data["model"] != "big"
		case event.TypeReasonCompleted, event.TypeOutputMessageCompleted:
			wrong = data["usage"] != nil || data["response_id"] != nil
		}
		if wrong {
			t.Errorf("%s reports %v", e.Type, data)
		}
	}
}

// A model call while the journal cannot be read could be paid for twice.
// Rules: VEC-24.
func TestNoModelIsCalledBeforeTheJournalIsRead(t *testing.T) {
	bubble(t, func(t *testing.T, store journal.Store) {
		first := newProcess(t, store)
		first.respondsAndDies(6*time.Second, model.Partial{Text: "The answer"})
		first.run(newTurn("demo-1"), finalizing())
		second := newProcess(t, store)
		second.line.down.Store(true)
		if closed, err := second.Reason(t.Context(), newTurn("demo-1"), finalizing()); !errors.Is(err, errDown) {
			t.Fatalf("it has closed %+v, %v", closed, err)
		}
		second.line.down.Store(false)
		turn, _ := second.reason(newTurn("demo-1"), finalizing())
		if len(second.asked) != 0 || turn.Progress.Output != "The answer" {
			t.Errorf("asked %d times, progress %+v", len(second.asked), turn.Progress)
		}
	})
}

// A Turn has a message for each of its model calls, and text is recovered for the open one alone.
// Rules: GAP-14, VEC-24.
func TestAPartialResponseIsThatOfTheOpenMessage(t *testing.T) {
	for name, test := range map[string]struct {
		pieces []model.Partial
		output string
		asked  int
	}{
		"that has text":    {[]model.Partial{{Text: "It is 4"}, {Text: "It is 42"}}, "It is 42", 0},
		"that has no text": {nil, "Hello.", 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store journal.Store) {
				first := newProcess(t, store)
				first.answer = func(r model.Request) (*model.Response, error) {
					r.ReportPartial(model.Partial{Text: "I look."})
					passes(6 * time.Second)
					return &model.Response{Text: "I look.", ToolCalls: calls(1, "look")}, nil
				}
				turn, _ := first.reason(newTurn("demo-1"), finalizing())
				turn = first.looked(turn)
				if len(pieces(t, store)) == 0 {
					t.Fatal("nothing of the first message was recorded")
				}
				first.respondsAndDies(6*time.Second, test.pieces...)
				first.run(turn, finalizing())

				b := onStore(t, store)
				turn, _ = b.reason(turn, finalizing())
				sent := b.transcript()
				last := sent[len(sent)-1]
				if len(b.asked) != test.asked || turn.Progress.Output != test.output || last.PlainText() != test.output ||
					last.ID != event.MessageID("turn-uid", 3) || len(sent) != 4 || sent[1].PlainText() != "I look." {
					t.Errorf("asked %d times, progress %+v, conversation %+v", len(b.asked), turn.Progress, sent)
				}
			})
		})
	}
}

// Rules: PART-02, VEC-24.
func TestAnAnswerIsAskedForAgainWhere(t *testing.T) {
	partials := func(texts ...string) []model.Partial {
		sent := make([]model.Partial, len(texts))
		for i, text := range texts {
			sent[i].Text = text
		}
		return sent
	}
	restart := func(c *turnstate.Config) { c.Model.Spec.Recovery = v1alpha1.ModelRecoveryRestart }
	for name, test := range map[string]struct {
		pieces []model.Partial
		// before and after change the Config of the process that dies, and of the one behind it.
		before, after func(*turnstate.Config)
		event         string
	}{
		"the Model restarts":        {pieces: partials("The"), before: restart, after: restart},
		"the Model restarts by now": {pieces: partials("The"), after: restart, event: "reason.recovered "},
		"another Model answers by now": {
			pieces: partials("The"), after: func(c *turnstate.Config) { c.Model.Name = "other" }, event: "reason.recovered ",
		},
		"no Model answers by now": {
			pieces: partials("The"), after: func(c *turnstate.Config) { *c = with(); c.Model.Name = "new" },
			event: "reason.recovered ",
		},
		"nothing had come":            {},
		"only white space had come":   {pieces: partials("\n\n"), event: "reason.recovered "},
		"the text so far is invalid":  {pieces: partials("\xff\xfe")},
		"only tool calls had come":    {pieces: []model.Partial{{ToolCalls: true}}},
		"tool calls had come at once": {pieces: []model.Partial{{Text: "I look.", ToolCalls: true}}},
		"a tool call had begun behind the text": {
			pieces: append(partials("I look."), model.Partial{Text: "I look.", ToolCalls: true}), event: "reason.recovered ",
		},
		"more text had come behind a tool call": {
			pieces: append(
				partials("I"), model.Partial{Text: "I", ToolCalls: true}, model.Partial{Text: "I look"},
			), event: "reason.recovered ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store journal.Store) {
				before, after := finalizing(), finalizing()
				for c, change := range map[*turnstate.Config]func(*turnstate.Config){&before: test.before, &after: test.after} {
					if change != nil {
						change(c)
					}
				}
				first := newProcess(t, store)
				first.respondsAndDies(6*time.Second, test.pieces...)
				first.run(newTurn("demo-1"), before)
				b := onStore(t, store)
				turn, closed := b.reason(newTurn("demo-1"), after)
				if len(b.asked) != 1 || turn.Progress.Output != "Hello." || turn.Progress.Recovered != "" {
					t.Errorf("asked %d times, progress %+v", len(b.asked), turn.Progress)
				}
				b.expectTypes(
					closed.Events,
					openingTypes,
					"reason.started "+test.event+"output.message.started llm.generation output.message.completed reason.completed",
					"turn.completed session.idled",
				)
			})
		})
	}
}

// TestTheFallbackThatWasAnsweringFinalizes has the first Model fail, and the process die while the second one responds.
func TestTheFallbackThatWasAnsweringFinalizes(t *testing.T) {
	bubble(t, func(t *testing.T, store journal.Store) {
		c := finalizing()
		c.Model.Spec.Recovery = ""
		second := named("second")
		second.Spec.Recovery = v1alpha1.ModelRecoveryFinalize
		c.Fallbacks = []*v1alpha1.Model{second}
		first := newProcess(t, store)
		first.pausing()
		first.answer = func(r model.Request) (*model.Response, error) {
			if r.Model != "second" {
				return nil, limited(0)
			}
			r.ReportPartial(model.Partial{Text: "From the second"})
			passes(6 * time.Second)
			return first.dies()
		}
		first.run(newTurn("demo-1"), c)
		turn, _ := onStore(t, store).reason(newTurn("demo-1"), c)
		if turn.Progress.Output != "From the second" || turn.Progress.Recovered == "" {
			t.Errorf("progress %+v", turn.Progress)
		}
	})
}

// TestTheTextOfATryThatHasFailedIsNoAnswer has the process die at any time behind a try that failed with text.
func TestTheTextOfATryThatHasFailedIsNoAnswer(t *testing.T) {
	for _, after := range []time.Duration{0, 500 * time.Millisecond, 3 * time.Second, 20 * time.Second} {
		t.Run(after.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T, store journal.Store) {
				first := newProcess(t, store)
				tries := 0
				first.answer = func(r model.Request) (*model.Response, error) {
					tries++
					if tries == 1 {
						r.ReportPartial(model.Partial{Text: "I try to call"})
						passes(6 * time.Second)
						return nil, unavailable()
					}
					passes(after)
					r.ReportPartial(model.Partial{ToolCalls: true})
					synctest.Wait()
					return first.dies()
				}
				first.run(newTurn("demo-1"), finalizing())
				turn, _ := onStore(t, store).reason(newTurn("demo-1"), finalizing())
				if turn.Progress.Output != "Hello." || turn.Progress.Recovered != "" {
					t.Errorf("progress %+v", turn.Progress)
				}
			})
		})
	}
}

// TestAStepThatIsRunAgainInTheSameProcessAsksAgain runs the step twice without a crash.
func TestAStepThatIsRunAgainInTheSameProcessAsksAgain(t *testing.T) {
	bubble(t, func(t *testing.T, store journal.Store) {
		b := onStore(t, store)
		ctx, cancel := context.WithCancel(t.Context())
		b.answer = func(r model.Request) (*model.Response, error) {
			r.ReportPartial(model.Partial{Text: "Half an"})
			passes(6 * time.Second)
			cancel()
			return nil, ctx.Err()
		}
		if _, err := b.Reason(ctx, newTurn("demo-1"), finalizing()); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		b.responds("Half an hour.")
		turn, closed := b.reason(newTurn("demo-1"), finalizing())
		if turn.Progress.Output != "Half an hour." || turn.Progress.Recovered != "" ||
			strings.Contains(typesOf(closed.Events), "recovered") {
			t.Errorf("progress %+v, events %s", turn.Progress, typesOf(closed.Events))
		}
		if kept := pieces(t, store); len(kept) != 2 || kept[1].Content != journal.PartialContentDiscarded {
			t.Errorf("the journal has %+v", kept)
		}
	})
}

// TestTheRecoveredTextIsAPrefixOfTheResponse has processes die, and the journal fail, at random moments.
// Rules: PART-01.
func TestTheRecoveredTextIsAPrefixOfTheResponse(t *testing.T) {
	finalized := 0
	for seed := range uint64(300) {
		bubble(t, func(t *testing.T, store journal.Store) {
			random := rand.New(rand.NewPCG(seed, 7))
			first := newProcess(t, store)
			text := strings.Repeat("word ü ", 1+random.IntN(50))
			sent, calls := 0, false
			first.answer = func(r model.Request) (*model.Response, error) {
				for sent < len(text) && random.IntN(12) > 0 {
					first.line.down.Store(random.IntN(3) == 0)
					calls = calls || random.IntN(20) == 0
					sent = min(sent+random.IntN(9), len(text))
					for sent < len(text) && text[sent]&0xC0 == 0x80 {
						sent++
					}
					r.ReportPartial(model.Partial{Text: text[:sent], ToolCalls: calls})
					if !first.line.down.Load() {
						synctest.Wait()
					}
					passes(time.Duration(random.IntN(8000)) * time.Millisecond)
				}
				if calls {
					// The start of tool calls is reported before anything can follow from it.
					first.line.down.Store(false)
					passes(lastRetry)
				}
				return first.dies()
			}
			first.run(newTurn("demo-1"), finalizing())
			turn, _ := onStore(t, store).reason(newTurn("demo-1"), finalizing())
			switch got := turn.Progress; {
			case got.Recovered == "" && got.Output != "Hello.":
				t.Fatalf("seed %d: progress %+v", seed, got)
			case got.Recovered != "" && calls:
				t.Fatalf("seed %d: an answer with tool calls was taken for the whole", seed)
			case got.Recovered != "" && (got.Output == "" || !strings.HasPrefix(text[:sent], got.Output)):
				t.Fatalf("seed %d: %q is no beginning of %q", seed, got.Output, text[:sent])
			case got.Recovered != "":
				finalized++
			}
		})
	}
	if finalized < 30 {
		t.Errorf("only %d answers were finalized", finalized)
	}
}
