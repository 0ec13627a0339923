package step

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/journaltest"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

func TestWhatComesIsWrittenLessOftenTheLongerItTakes(t *testing.T) {
	bubble(t, func(t *testing.T, store journal.Store) {
		b := onStore(t, store)
		const minutes = 60
		var texts strings.Builder
		b.answer = func(r model.Request) (*model.Response, error) {
			for second := range minutes * 60 {
				fmt.Fprintf(&texts, "%d ", second)
				r.ReportPartial(model.Partial{Text: texts.String()})
				passes(time.Second)
			}
			return &model.Response{Text: texts.String()}, nil
		}
		turn, _ := b.reason(newTurn("demo-1"), finalizing())
		if turn.Progress.Recovered != "" || turn.Progress.Phase != v1alpha1.TurnPhaseSucceeded {
			t.Errorf("progress %+v", turn.Progress)
		}
		all := pieces(t, store)
		if len(all) < 58 || len(all) > 66 {
			t.Errorf("%d minutes have %d pieces", minutes, len(all))
		}
		kept := ""
		for i, p := range all {
			if p.Offset != int64(len(kept)) || p.Text == "" || p.Message != all[0].Message ||
				p.Content != journal.PartialContentText ||
				p.Model != "m" {
				t.Fatalf("behind %d bytes comes %+v", len(kept), p)
			}
			kept += p.Text
			if second := len(strings.Fields(kept)); i < 12 && (second < 5*(i+1) || second > 5*(i+1)+1) {
				t.Errorf("piece %d ends at second %d", i, second)
			}
		}
		if !strings.HasPrefix(texts.String(), kept) || len(strings.Fields(kept)) < minutes*60*10/12 {
			t.Errorf("%d of %d seconds were kept", len(strings.Fields(kept)), minutes*60)
		}
		if messages, want := b.transcript(), event.MessageID("turn-uid", 1); messages[1].ID != want {
			t.Errorf("the response is message %s, want %s", messages[1].ID, want)
		}
	})
}

func TestAQuickAnswerCostsNoEntry(t *testing.T) {
	bubble(t, func(t *testing.T, store journal.Store) {
		b := onStore(t, store)
		b.answer = func(r model.Request) (*model.Response, error) {
			r.ReportPartial(model.Partial{Text: "Hello."})
			passes(4900 * time.Millisecond)
			return &model.Response{Text: "Hello."}, nil
		}
		if _, closed := b.reason(newTurn("demo-1"), finalizing()); closed.Ordinal != 1 {
			t.Errorf("the step is closed at ordinal %d", closed.Ordinal)
		}
	})
}

// TestAPanicWhileAnAnswerIsRecordedEndsTheRecordingAlone has the store panic over each piece.
func TestAPanicWhileAnAnswerIsRecordedEndsTheRecordingAlone(t *testing.T) {
	bubble(t, func(t *testing.T, store journal.Store) {
		panics := 0
		b := onStore(t, &line{Store: store, fails: func(e *v1alpha1.JournalEntrySpec) error {
			if journaltest.Content(e).Partial != nil {
				panics++
				panic("a piece that cannot be written")
			}
			return nil
		}})
		b.answer = func(r model.Request) (*model.Response, error) {
			r.ReportPartial(model.Partial{Text: "One"})
			passes(30 * time.Second)
			return &model.Response{Text: "One two"}, nil
		}
		turn, _ := b.reason(newTurn("demo-1"), finalizing())
		if turn.Progress.Phase != v1alpha1.TurnPhaseSucceeded || turn.Progress.Output != "One two" || panics != 1 {
			t.Errorf("%d panics, progress %+v", panics, turn.Progress)
		}
	})
}

// TestALogThatIsAwayForAWhile has pieces fail, and go on where the journal is back.
func TestALogThatIsAwayForAWhile(t *testing.T) {
	for name, behind := range map[string]model.Partial{
		"keeps the text so far":        {Text: "One two three four"},
		"discards the kept text":       {Text: "One two three", ToolCalls: true},
		"takes it back without a text": {ToolCalls: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store journal.Store) {
				first := newProcess(t, store)
				first.answer = func(r model.Request) (*model.Response, error) {
					r.ReportPartial(model.Partial{Text: "One"})
					passes(6 * time.Second)
					first.line.down.Store(true)
					r.ReportPartial(model.Partial{Text: "One two"})
					passes(time.Minute)
					r.ReportPartial(behind)
					passes(time.Second)
					first.line.down.Store(false)
					passes(time.Minute)
					return first.dies()
				}
				first.run(newTurn("demo-1"), finalizing())
				turn, _ := onStore(t, store).reason(newTurn("demo-1"), finalizing())
				want, recovered := behind.Text, v1alpha1.TurnRecoveryFinalized
				if behind.ToolCalls {
					want, recovered = "Hello.", ""
				}
				if turn.Progress.Output != want || turn.Progress.Recovered != recovered {
					t.Errorf("output %q, recovered %q", turn.Progress.Output, turn.Progress.Recovered)
				}
			})
		})
	}
}

// TestAPieceThatLandsLateIsNotWrittenTwice lets creates of pieces fail although they are executed.
func TestAPieceThatLandsLateIsNotWrittenTwice(t *testing.T) {
	bubble(t, func(t *testing.T, store journal.Store) {
		first := newProcess(t, store)
		first.line.fails = func(e *v1alpha1.JournalEntrySpec) error {
			if journaltest.Content(e).Partial == nil {
				return nil
			}
			if err := store.Create(t.Context(), session, e); err != nil {
				return err
			}
			first.line.down.Store(true)
			return errDown
		}
		whole := ""
		first.answer = func(r model.Request) (*model.Response, error) {
			for n := range 20 {
				whole += fmt.Sprintf("%d ", n)
				r.ReportPartial(model.Partial{Text: whole})
				passes(3 * time.Second)
				first.line.down.Store(false)
			}
			passes(6 * time.Second)
			return first.dies()
		}
		first.run(newTurn("demo-1"), finalizing())
		turn, _ := onStore(t, store).reason(newTurn("demo-1"), finalizing())
		if turn.Progress.Output != whole || turn.Progress.Recovered == "" {
			t.Errorf("output %q, want %q", turn.Progress.Output, whole)
		}
	})
}

// TestALogThatTakesNoPiecesCostsNoAnswer lets every piece fail.
func TestALogThatTakesNoPiecesCostsNoAnswer(t *testing.T) {
	for name, err := range map[string]error{"for now": errDown, "for good": journal.ErrRefused} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, store journal.Store) {
				l := &line{Store: store, fails: func(e *v1alpha1.JournalEntrySpec) error {
					if journaltest.Content(e).Partial != nil {
						return err
					}
					return nil
				}}
				b := onStore(t, l)
				b.answer = func(r model.Request) (*model.Response, error) {
					for _, text := range []string{"Hel", "Hello", "Hello."} {
						r.ReportPartial(model.Partial{Text: text})
						passes(time.Minute)
					}
					return &model.Response{Text: "Hello."}, nil
				}
				if turn, closed := b.reason(
					newTurn("demo-1"),
					finalizing(),
				); turn.Progress.Output != "Hello." ||
					closed.Ordinal != 1 {
					t.Errorf("closed at ordinal %d with %+v", closed.Ordinal, turn.Progress)
				}
			})
		})
	}
}

// TestAnotherProcessHasClosedTheStep has the Turn cancelled by another process while the response arrives: it is not
// paid for any longer.
func TestAnotherProcessHasClosedTheStep(t *testing.T) {
	bubble(t, func(t *testing.T, store journal.Store) {
		b, other := onStore(t, store), onStore(t, store)
		cut := false
		b.Models["Test"] = func(*v1alpha1.Model, model.Access) (model.Driver, error) {
			return driver(func(ctx context.Context, r model.Request) (*model.Response, error) {
				if _, err := other.Cancel(t.Context(), newTurn("demo-1"), nil); err != nil {
					t.Error(err)
				}
				r.ReportPartial(model.Partial{Text: "Hello"})
				select {
				case <-ctx.Done():
					cut = true
				case <-time.After(time.Hour):
				}
				return nil, ctx.Err()
			}), nil
		}
		turn, closed := b.reason(newTurn("demo-1"), finalizing())
		if !cut || !closed.Adopted || turn.Progress.Phase != v1alpha1.TurnPhaseCancelled {
			t.Errorf("cut off %v, progress %+v", cut, turn.Progress)
		}
		if kept := pieces(t, store); len(kept) > 0 {
			t.Errorf("the journal has %+v", kept)
		}
	})
}

type driver func(ctx context.Context, r model.Request) (*model.Response, error)

func (d driver) Generate(ctx context.Context, r model.Request) (*model.Response, error) {
	return d(ctx, r)
}

// TestAnAnswerWaitsForALogThatRefusesIt has, for example, a quota on the entries of the journal.
// Rules: VEC-12.
func TestAnAnswerWaitsForALogThatRefusesIt(t *testing.T) {
	bubble(t, func(t *testing.T, store journal.Store) {
		refusals := 0
		l := &line{Store: store, fails: func(*v1alpha1.JournalEntrySpec) error {
			refusals++
			if refusals <= 7 {
				return fmt.Errorf("exceeded quota: %w", journal.ErrRefused)
			}
			return nil
		}}
		b := onStore(t, l)
		var reported []string
		b.OnUndelivered = func(
			_ context.Context, t turnstate.Turn, err error,
		) {
			reported = append(reported, t.Ref.Name+": "+err.Error())
		}
		turn, _ := b.reason(newTurn("demo-1"), with())
		if len(b.asked) != 1 || turn.Progress.Output != "Hello." {
			t.Errorf("asked %d times, progress %+v", len(b.asked), turn.Progress)
		}
		if len(reported) != 7 ||
			slices.ContainsFunc(
				reported,
				func(s string) bool { return !strings.Contains(s, "demo-1") || !strings.Contains(s, "exceeded quota") },
			) {
			t.Errorf("reported %q", reported)
		}
	})
}
