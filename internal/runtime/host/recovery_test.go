package host

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

// finalizing is a Config whose Model keeps what it has said.
func finalizing() Config {
	c := with(jobTool("look"))
	c.Model.Spec.Recovery = v1alpha1.RecoveryFinalize
	c.Model.Spec.Model = "big"
	return c
}

var errDied = errors.New("the process died")

// saysUntilItDies makes the model say pieces, six seconds apart, and the process die behind them.
func (b *bench) saysUntilItDies(pieces ...model.Partial) {
	b.answer = func(r model.Request) (*model.Response, error) {
		for _, p := range pieces {
			b.passes(6 * time.Second)
			b.tell(r, p)
		}
		panic(errDied)
	}
}

// tell tells of a piece, and waits until what follows is written.
func (b *bench) tell(r model.Request, p model.Partial) {
	r.Tell(p)
	synctest.Wait()
}

// dies runs the open reason step up to the death of the process.
func (b *bench) dies(turn Turn, c Config) {
	b.t.Helper()
	defer func() {
		if err, ok := recover().(error); !ok || !errors.Is(err, errDied) {
			b.t.Fatalf("the process ends with %v", err)
		}
	}()
	_, err := b.Reason(b.t.Context(), turn, c)
	b.t.Fatalf("the process lives, error %v", err)
}

// refusing is a store that takes no pieces of answers.
type refusing struct{ journal.Store }

func (s refusing) Create(ctx context.Context, of journal.Session, e *v1alpha1.JournalEntrySpec) error {
	if e.Partial != nil {
		return errors.New("the log takes no pieces")
	}
	return s.Store.Create(ctx, of, e)
}

// pieces are what the log has of answers that came in.
func (b *bench) pieces() []v1alpha1.PartialAnswer {
	b.t.Helper()
	var found []v1alpha1.PartialAnswer
	for o := int64(1); ; o++ {
		e, err := b.store.Get(b.t.Context(), session, o)
		if errors.Is(err, journal.ErrNotFound) {
			return found
		}
		if err != nil {
			b.t.Fatal(err)
		}
		if e.Partial != nil {
			found = append(found, *e.Partial)
		}
	}
}

func TestAnAnswerThatWasCutOffIsTakenForTheWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		turn := newTurn("demo-1")
		b.saysUntilItDies(model.Partial{Text: "The answer"}, model.Partial{Text: "The answer is"}, model.Partial{Text: "The answer is 4"})
		b.dies(turn, finalizing())

		other := onStore(t, b.store)
		turn, closed := other.reason(turn, finalizing())
		if len(other.asked) != 0 {
			t.Errorf("the model was asked again, %d times", len(other.asked))
		}
		other.expectTypes(closed.Events, openingTypes,
			"reason.started output.message.started output.message.completed reason.recovered reason.completed", "turn.completed session.idled")
		p := turn.Progress
		if p.Phase != v1alpha1.TurnSucceeded || p.Output != "The answer is 4" || p.Recovered != v1alpha1.RecoveryFinalize || p.Plan.StopReason != v1alpha1.StopEndTurn {
			t.Errorf("progress %+v, plan %+v", p, p.Plan)
		}
		if p.Summary.ModelCalls != 1 || p.Summary.Usage != (v1alpha1.Usage{}) {
			t.Errorf("summary %+v", p.Summary)
		}
		said := other.transcript()
		kept := b.pieces()
		if len(said) != 2 || said[1].PlainText() != "The answer is 4" || said[1].ID != kept[0].Message {
			t.Errorf("the conversation is %+v, what was kept %+v", said, kept)
		}
		for _, e := range closed.Events {
			var data map[string]any
			if err := json.Unmarshal(e.Data.Raw, &data); err != nil {
				t.Fatal(err)
			}
			switch e.Type {
			case event.TypeReasonRecovered:
				if data["mode"] != "finalize" || data["length"] != float64(len("The answer is 4")) {
					t.Errorf("%s says %v", e.Type, data)
				}
			case event.TypeReasonStarted, event.TypeOutputMessageStarted:
				if data["model"] != "big" {
					t.Errorf("%s says %v", e.Type, data)
				}
			case event.TypeReasonCompleted, event.TypeOutputMessageCompleted:
				if data["usage"] != nil || data["response_id"] != nil {
					t.Errorf("%s says %v", e.Type, data)
				}
			}
		}
		// The next Turn goes on from there.
		next := newTurn("demo-2")
		next.Ref.UID, next.Progress = "uid-2", Begin(closed.Ordinal+1, other.micro())
		after, _ := other.reason(next, finalizing())
		if got := other.asked[0].Messages; len(got) != 3 || got[1].PlainText() != "The answer is 4" {
			t.Errorf("the model reads %+v", got)
		}
		if after.Progress.Recovered != "" {
			t.Error("the next Turn is marked as recovered")
		}
	})
}

func TestAnAnswerIsAskedForAgainWhere(t *testing.T) {
	for name, test := range map[string]struct {
		pieces []model.Partial
		recovery,
		event string
	}{
		"the Model restarts":                     {pieces: []model.Partial{{Text: "The"}}, recovery: "Restart"},
		"the Model says nothing of it":           {pieces: []model.Partial{{Text: "The"}}},
		"nothing had come":                       {recovery: "Finalize"},
		"only tool calls had come":               {pieces: []model.Partial{{ToolCalls: true}}, recovery: "Finalize"},
		"tool calls had come at once":            {pieces: []model.Partial{{Text: "I look.", ToolCalls: true}}, recovery: "Finalize"},
		"a tool call had begun behind the text":  {pieces: []model.Partial{{Text: "I look."}, {Text: "I look.", ToolCalls: true}}, recovery: "Finalize", event: "reason.recovered "},
		"more text had come behind a tool call":  {pieces: []model.Partial{{Text: "I"}, {Text: "I", ToolCalls: true}, {Text: "I look", ToolCalls: true}}, recovery: "Finalize", event: "reason.recovered "},
		"what had come is no text at all":        {pieces: []model.Partial{{Text: "\xff\xfe"}}, recovery: "Finalize"},
		"what had come had come a moment before": {pieces: nil, recovery: "Finalize"},
	} {
		run := func(t *testing.T) {
			b := newBench(t)
			turn, c := newTurn("demo-1"), finalizing()
			c.Model.Spec.Recovery = v1alpha1.ModelRecovery(test.recovery)
			b.saysUntilItDies(test.pieces...)
			b.dies(turn, c)
			other := onStore(t, b.store)
			turn, closed := other.reason(turn, c)
			if len(other.asked) != 1 || turn.Progress.Output != "Hello." || turn.Progress.Recovered != "" {
				t.Errorf("asked %d times, progress %+v", len(other.asked), turn.Progress)
			}
			other.expectTypes(closed.Events, openingTypes, "reason.started "+test.event+"output.message.started llm.generation output.message.completed reason.completed",
				"turn.completed session.idled")
		}
		t.Run(name, func(t *testing.T) { synctest.Test(t, run) })
	}
}

func TestWhatComesIsWrittenEveryFiveSecondsInPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.answer = func(r model.Request) (*model.Response, error) {
			text := ""
			for range 60 {
				b.passes(time.Second)
				text += "x"
				b.tell(r, model.Partial{Text: text})
			}
			return &model.Response{Text: text}, nil
		}
		turn, _ := b.reason(newTurn("demo-1"), finalizing())
		if turn.Progress.Output != strings.Repeat("x", 60) || turn.Progress.Recovered != "" {
			t.Errorf("progress %+v", turn.Progress)
		}
		pieces := b.pieces()
		if len(pieces) < 10 || len(pieces) > 12 {
			t.Errorf("60 s gave %d pieces", len(pieces))
		}
		kept := ""
		for _, p := range pieces {
			if p.Offset != int64(len(kept)) || p.Text == "" || p.Message != pieces[0].Message || p.Content != v1alpha1.PartialText {
				t.Errorf("behind %d bytes comes %+v", len(kept), p)
			}
			kept += p.Text
		}
		if said := b.transcript(); said[1].ID != pieces[0].Message {
			t.Errorf("the pieces are of message %s, the answer is %s", pieces[0].Message, said[1].ID)
		}
	})
}

func TestAQuickAnswerCostsNoEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.answer = func(r model.Request) (*model.Response, error) {
			b.passes(4900 * time.Millisecond)
			b.tell(r, model.Partial{Text: "Hello."})
			return &model.Response{Text: "Hello."}, nil
		}
		if _, closed := b.reason(newTurn("demo-1"), finalizing()); closed.Ordinal != 1 {
			t.Errorf("the step is closed at ordinal %d", closed.Ordinal)
		}
	})
}

// TestALogThatTakesNoPiecesCostsNoAnswer lets every piece fail.
func TestALogThatTakesNoPiecesCostsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := onStore(t, refusing{memory.New()})
		b.answer = func(r model.Request) (*model.Response, error) {
			for _, text := range []string{"Hel", "Hello", "Hello."} {
				b.passes(time.Minute)
				b.tell(r, model.Partial{Text: text})
			}
			return &model.Response{Text: "Hello."}, nil
		}
		if turn, closed := b.reason(newTurn("demo-1"), finalizing()); turn.Progress.Output != "Hello." || closed.Ordinal != 1 {
			t.Errorf("closed at ordinal %d with %+v", closed.Ordinal, turn.Progress)
		}
	})
}

func TestALongTextIsKeptInPiecesThatFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		text := "a" + strings.Repeat("ü", maxPiece)
		b.saysUntilItDies(model.Partial{Text: text}, model.Partial{Text: text}, model.Partial{Text: text})
		b.dies(newTurn("demo-1"), finalizing())
		turn, closed := onStore(t, b.store).reason(newTurn("demo-1"), finalizing())
		if len(b.pieces()) != 3 || turn.Progress.Recovered == "" {
			t.Errorf("there are %d pieces, progress %+v", len(b.pieces()), turn.Progress.Recovered)
		}
		for _, e := range closed.Events {
			if m, ok, err := event.MessageOf(e); err != nil || ok && m.Role == event.RoleAssistant && m.PlainText() != text {
				t.Errorf("what was kept has %d of %d bytes, error %v", len(m.PlainText()), len(text), err)
			}
		}
	})
}

// TestWhatIsRecoveredIsAlwaysABeginning has processes die at random moments.
func TestWhatIsRecoveredIsAlwaysABeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(200) {
			random := rand.New(rand.NewPCG(seed, 7))
			b := newBench(t)
			whole := strings.Repeat("word ü ", 1+random.IntN(50))
			told, length, calls := 0, 0, false
			b.answer = func(r model.Request) (*model.Response, error) {
				for length < len(whole) {
					if random.IntN(12) == 0 {
						panic(errDied)
					}
					calls = calls || random.IntN(20) == 0
					length = min(length+random.IntN(9), len(whole))
					b.passes(time.Duration(random.IntN(4000)) * time.Millisecond)
					for length < len(whole) && whole[length]&0xC0 == 0x80 {
						length++
					}
					r.Tell(model.Partial{Text: whole[:length], ToolCalls: calls})
					told++
					if random.IntN(2) == 0 {
						synctest.Wait()
					}
				}
				panic(errDied)
			}
			b.dies(newTurn("demo-1"), finalizing())
			other := onStore(t, b.store)
			turn, _ := other.reason(newTurn("demo-1"), finalizing())
			switch got := turn.Progress; {
			case got.Recovered == "" && got.Output != "Hello.":
				t.Fatalf("seed %d: progress %+v", seed, got)
			case got.Recovered != "" && calls:
				t.Fatalf("seed %d: an answer with tool calls was taken for the whole", seed)
			case got.Recovered != "" && (got.Output == "" || !strings.HasPrefix(whole[:length], got.Output)):
				t.Fatalf("seed %d: %q is no beginning of %q", seed, got.Output, whole[:length])
			}
		}
	})
}
