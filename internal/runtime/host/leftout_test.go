package host

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
)

// library has messages of which Turns are kept without.
type library struct {
	reads int
	err   error
}

// unread is the Turn as it is kept where its message is left out.
func (l *library) unread(t *testing.T, turn Turn, spec v1alpha1.TurnSpec) Turn {
	t.Helper()
	kept := &v1alpha1.Turn{Spec: *spec.DeepCopy()}
	LeaveOutMessage(kept)
	if !MessageLeftOut(kept.Spec) {
		t.Fatalf("the message is kept whole: %d bytes", keptBytes(spec))
	}
	turn.Input, turn.Content = MessageOf(kept.Spec)
	turn.MessageBytes = leftOutBytes(kept)
	turn.ReadMessage = l.reader(spec)
	return turn
}

func (l *library) reader(spec v1alpha1.TurnSpec) MessageReader {
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
		Message: &v1alpha1.TurnMessage{Content: []v1alpha1.MessagePart{said("What is it?"), shown(image)}},
	}
}

func TestWhichMessagesAreLeftOut(t *testing.T) {
	byURL := shown(
		v1alpha1.MessageImage{MediaType: v1alpha1.ImageMediaTypePNG, URL: "https://example.org/" + strings.Repeat("a", 2000)},
	)
	for name, test := range map[string]struct {
		spec  v1alpha1.TurnSpec
		bytes int64
		begin string
	}{
		"a short text":              {v1alpha1.TurnSpec{Input: "Hello"}, 0, ""},
		"as long as an excerpt":     {v1alpha1.TurnSpec{Input: strings.Repeat("x", 2<<10)}, 0, ""},
		"a longer text":             {v1alpha1.TurnSpec{Input: strings.Repeat("x", 2<<10+1)}, 2<<10 + 1, strings.Repeat("x", 2<<10+1)},
		"a small image":             {v1alpha1.TurnSpec{Message: &v1alpha1.TurnMessage{Content: []v1alpha1.MessagePart{shown(pixel)}}}, 0, ""},
		"an image":                  {longMessage(), 8<<10 + 11, "What is it?"},
		"many addresses of images":  {v1alpha1.TurnSpec{Message: &v1alpha1.TurnMessage{Content: []v1alpha1.MessagePart{byURL, byURL}}}, 4040, ""},
		"a size that a user claims": {v1alpha1.TurnSpec{Input: "Hello"}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			turn := &v1alpha1.Turn{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{AnnotationMessageBytes: "7"}},
				Spec:       test.spec,
			}
			whole := *test.spec.DeepCopy()
			LeaveOutMessage(turn)
			if test.bytes == 0 {
				if MessageLeftOut(turn.Spec) || !reflect.DeepEqual(turn.Spec, whole) || len(turn.Annotations) != 0 {
					t.Errorf("kept %+v, %v", turn.Spec, turn.Annotations)
				}
				return
			}
			for range 2 { // A cache passes what it has through again.
				input, content := MessageOf(turn.Spec)
				if !MessageLeftOut(turn.Spec) || input != test.begin || content != nil || leftOutBytes(turn) != test.bytes {
					t.Errorf(
						"kept %d bytes, %d parts of %d bytes; left out: %v",
						len(input),
						len(content),
						leftOutBytes(turn),
						MessageLeftOut(turn.Spec),
					)
				}
				LeaveOutMessage(turn)
			}
		})
	}
}

func TestAMessageThatWasLeftOutIsReadWhereItIsWritten(t *testing.T) {
	ctx := context.Background()
	whole := newTurn("demo-1").inParts(longMessage().Message.Content...)
	for name, closes := range map[string]func(*bench, Turn) error{
		"a model call": func(b *bench, turn Turn) error {
			_, err := b.Reason(ctx, turn, with())
			return err
		},
		"a cancellation": func(b *bench, turn Turn) error {
			_, err := b.Cancel(ctx, turn, nil)
			return err
		},
		"a deletion": func(b *bench, turn Turn) error {
			_, err := b.Deleted(ctx, turn, nil)
			return err
		},
		"a failure": func(b *bench, turn Turn) error {
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
			if err != nil || view.Turns["demo-1"].Digest != whole.digest() {
				t.Errorf("the journal knows the Turn by %+v, %v", view.Turns["demo-1"], err)
			}
		})
	}
}

func TestATurnWhoseMessageWasLeftOutIsRecalledByIt(t *testing.T) {
	b, l := newBench(t), &library{}
	b.reason(newTurn("demo-1").inParts(longMessage().Message.Content...), with())
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
	whole := newTurn("demo-1").inParts(longMessage().Message.Content...)
	unread := (&library{}).unread(t, newTurn("demo-1"), longMessage())
	if want, got := whole.CallBytes(0), unread.CallBytes(0); got != want {
		t.Errorf("a call needs %d bytes, with the message %d", got, want)
	}
}

func TestMessagesThatWereLeftOutGoIntoATurnInOrder(t *testing.T) {
	l := &library{}
	steer := func(name string, size int, readable bool) Steer {
		s := Steer{
			Ref:         v1alpha1.JournalTurn{Name: name},
			ReadMessage: l.reader(v1alpha1.TurnSpec{Input: strings.Repeat(name, size)}),
		}
		if !readable {
			s.ReadMessage = (&library{err: errors.New("not now")}).reader(v1alpha1.TurnSpec{})
		}
		return s
	}
	short := Steer{Ref: v1alpha1.JournalTurn{Name: "s"}, Input: "short"}
	for name, test := range map[string]struct {
		offered []Steer
		want    string
	}{
		"all":                           {[]Steer{steer("a", 4<<10, true), short, steer("b", 4<<10, true)}, "asb"},
		"up to one that cannot be read": {[]Steer{short, steer("a", 4<<10, false), steer("b", 4<<10, true)}, "s"},
		"as many as a step takes":       {[]Steer{steer("a", 1<<20, true), steer("b", 1<<20, true), steer("c", 1<<20, true)}, "ab"},
	} {
		var got strings.Builder
		for _, s := range read(t.Context(), test.offered) {
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
	want := newTurn("demo-1").inParts(longMessage().Message.Content...).digest()
	view, err := b.Log.View(t.Context(), newTurn("demo-1").Session, 0)
	if err != nil || view.Turns["demo-1"].Digest != want || l.reads != 1 {
		t.Errorf("the journal has %+v, %v, after %d reads", view.Turns["demo-1"], err, l.reads)
	}
}

func TestAMessageIsNeverUsedUnread(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("the beginning of a message passed for the message")
		}
	}()
	_ = (&library{}).unread(t, newTurn("demo-1"), longMessage()).message()
}

func TestWhichResultsAreLeftOut(t *testing.T) {
	short, long := "short", strings.Repeat("x", maxResultBytes+1)
	for name, test := range map[string]struct {
		spec v1alpha1.ToolResultSpec
		out  bool
	}{
		"a short result": {v1alpha1.ToolResultSpec{Result: &short}, false},
		"a short error":  {v1alpha1.ToolResultSpec{Error: &short}, false},
		"a decision":     {v1alpha1.ToolResultSpec{Decision: v1alpha1.DecisionApprove}, false},
		"a long result":  {v1alpha1.ToolResultSpec{Result: &long}, true},
		"a long error":   {v1alpha1.ToolResultSpec{Error: &long}, true},
	} {
		result := &v1alpha1.ToolResult{Spec: test.spec}
		LeaveOutResult(result)
		if out := ResultLeftOut(result); out != test.out || (result.Spec == v1alpha1.ToolResultSpec{}) != test.out {
			t.Errorf("%s: left out: %v, kept %+v", name, out, result.Spec)
		}
	}
}
