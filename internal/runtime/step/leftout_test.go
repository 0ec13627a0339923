package step

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// library has messages of which Turns are kept without.
type library struct {
	reads int
	err   error
}

// unread is the Turn as it is kept where its message is left out.
func (l *library) unread(t *testing.T, turn turnstate.Turn, spec v1alpha1.TurnSpec) turnstate.Turn {
	t.Helper()
	kept := &v1alpha1.Turn{Spec: *spec.DeepCopy()}
	turnstate.LeaveOutMessage(kept)
	if !turnstate.MessageLeftOut(kept.Spec) {
		t.Fatal("the message is kept whole")
	}
	of := turnstate.TurnOf(kept, &v1alpha1.Session{})
	turn.Input, turn.Content, turn.MessageBytes = of.Input, of.Content, of.MessageBytes
	turn.ReadMessage = l.reader(spec)
	return turn
}

func (l *library) reader(spec v1alpha1.TurnSpec) turnstate.MessageReader {
	return func(context.Context) (v1alpha1.TurnSpec, error) {
		l.reads++
		return spec, l.err
	}
}

// longMessage is a message that is not kept with its Turn.
func longMessage() v1alpha1.TurnSpec {
	image := pixel
	image.Data = strings.Repeat("A", 8<<10)
	return v1alpha1.TurnSpec{
		Message: &v1alpha1.TurnMessage{Content: []v1alpha1.MessagePart{textPart("What is it?"), shown(image)}},
	}
}

func TestAMessageThatWasLeftOutIsReadWhereItIsWritten(t *testing.T) {
	ctx := context.Background()
	whole := inParts(newTurn("demo-1"), longMessage().Message.Content...)
	for name, closes := range map[string]func(*bench, turnstate.Turn) error{
		"a model call": func(b *bench, turn turnstate.Turn) error {
			_, err := b.Reason(ctx, turn, with())
			return err
		},
		"a cancellation": func(b *bench, turn turnstate.Turn) error {
			_, err := b.Cancel(ctx, turn, nil)
			return err
		},
		"a deletion": func(b *bench, turn turnstate.Turn) error {
			_, err := b.Deleted(ctx, turn, nil)
			return err
		},
		"a failure": func(b *bench, turn turnstate.Turn) error {
			_, err := b.Fail(ctx, turn, plan.Failure{Code: v1alpha1.ErrorCodeProcessingError}, nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, l := newBench(t), &library{}
			turn := l.unread(t, newTurn("demo-1"), longMessage())
			l.err = errors.New("not now")
			if err := closes(b, turn); !errors.Is(err, l.err) || len(b.asked) != 0 {
				t.Fatalf("without its message: %v; the model was asked %d times", err, len(b.asked))
			}
			l.err, l.reads = nil, 0
			if err := closes(b, turn); err != nil {
				t.Fatal(err)
			}
			if l.reads != 1 {
				t.Errorf("the message was read %d times", l.reads)
			}
			if len(b.asked) > 0 && !reflect.DeepEqual(b.asked[0].Messages[0].Content, whole.Content) {
				t.Errorf("the model reads %+v", b.asked[0].Messages)
			}
			if got := b.transcript(); !reflect.DeepEqual(got[0].Content, whole.Content) {
				t.Errorf("the journal has %+v", got[0])
			}
			view, err := b.Log.View(ctx, turn.Session, 0)
			if err != nil || view.Turns["demo-1"].Digest != whole.Digest() {
				t.Errorf("the journal knows the Turn by %+v, %v", view.Turns["demo-1"], err)
			}
		})
	}
}

func TestATurnWhoseMessageWasLeftOutIsRecalledByIt(t *testing.T) {
	b, l := newBench(t), &library{}
	b.reason(inParts(newTurn("demo-1"), longMessage().Message.Content...), with())
	next := newTurn("demo-1")
	next.Ref.UID = "uid-2"
	other := longMessage()
	other.Message.Content[1].Image.MediaType = v1alpha1.ImageMediaTypeJPEG
	for name, test := range map[string]struct {
		spec v1alpha1.TurnSpec
		same bool
	}{"the same": {longMessage(), true}, "another that begins as it does": {other, false}} {
		recalled, err := b.Recall(t.Context(), l.unread(t, next, test.spec), 0)
		if err != nil || recalled == nil || recalled.SameMessage != test.same {
			t.Errorf("%s: recalled %+v, %v", name, recalled, err)
		}
	}
	l.reads = 0
	if recalled, err := b.Recall(
		t.Context(),
		l.unread(t, newTurn("demo-2"), longMessage()),
		0,
	); recalled != nil || err != nil ||
		l.reads != 0 {
		t.Errorf("a new name: recalled %+v, %v, after %d reads", recalled, err, l.reads)
	}
}

func TestAMessageThatWasLeftOutTakesTheMemoryOfTheWhole(t *testing.T) {
	whole := inParts(newTurn("demo-1"), longMessage().Message.Content...)
	unread := (&library{}).unread(t, newTurn("demo-1"), longMessage())
	if want, got := CallBytes(whole, 0), CallBytes(unread, 0); got != want {
		t.Errorf("a call needs %d bytes, with the message %d", got, want)
	}
}

func TestMessagesThatWereLeftOutGoIntoATurnInOrder(t *testing.T) {
	l := &library{}
	steer := func(name string, size int, readable bool) turnstate.Steer {
		s := turnstate.Steer{
			Ref:         v1alpha1.JournalTurn{Name: name},
			ReadMessage: l.reader(v1alpha1.TurnSpec{Input: strings.Repeat(name, size)}),
		}
		if !readable {
			s.ReadMessage = (&library{err: errors.New("not now")}).reader(v1alpha1.TurnSpec{})
		}
		return s
	}
	short := turnstate.Steer{Ref: v1alpha1.JournalTurn{Name: "s"}, Input: "short"}
	for name, test := range map[string]struct {
		offered []turnstate.Steer
		want    string
	}{
		"all":                           {[]turnstate.Steer{steer("a", 4<<10, true), short, steer("b", 4<<10, true)}, "asb"},
		"up to one that cannot be read": {[]turnstate.Steer{short, steer("a", 4<<10, false), steer("b", 4<<10, true)}, "s"},
		"as many as a step takes": {
			[]turnstate.Steer{steer("a", 1<<20, true), steer("b", 1<<20, true), steer("c", 1<<20, true)}, "ab",
		},
	} {
		var got strings.Builder
		for _, s := range readMessages(t.Context(), test.offered) {
			got.WriteString(s.Ref.Name)
			if s.ReadMessage != nil || !strings.HasPrefix(s.Input, s.Ref.Name) {
				t.Errorf("%s: message %s has %d bytes", name, s.Ref.Name, len(s.Input))
			}
		}
		if got.String() != test.want {
			t.Errorf("%s: %s go into the Turn, want %s", name, got.String(), test.want)
		}
	}
}

func TestACancelledMessageThatWasLeftOutIsWithdrawnByItsDigest(t *testing.T) {
	b, l := newBench(t), &library{}
	if _, into, err := b.CancelSteer(
		t.Context(),
		l.unread(t, newTurn("demo-1"), longMessage()),
		0,
	); into != nil ||
		err != nil {
		t.Fatal(into, err)
	}
	want := inParts(newTurn("demo-1"), longMessage().Message.Content...).Digest()
	view, err := b.Log.View(t.Context(), newTurn("demo-1").Session, 0)
	if err != nil || view.Turns["demo-1"].Digest != want || l.reads != 1 {
		t.Errorf("the journal has %+v, %v, after %d reads", view.Turns["demo-1"], err, l.reads)
	}
}
