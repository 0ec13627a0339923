package step

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
	recordmemory "github.com/capstan-dev/capstan/internal/runtime/record/memory"
	"github.com/capstan-dev/capstan/internal/runtime/sessionimage"
	"github.com/capstan-dev/capstan/internal/runtime/sessionimage/imagetest"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// Rules: IMG-03. An image that a message named before the Session had it is never sent: its size counts nowhere. The
// next request has of a message what the first one had.
func TestAnImageIsSentOnlyIfItsSizeCounts(t *testing.T) {
	b := stored(t, memory.New(), recordmemory.New())
	later := imagetest.PNG(30_000, "later")
	image, named := inline(later), imageNamed(sessionimage.IDOf(later))
	b.look("demo-1", slices.Repeat([]event.Part{named}, 32)...)
	b.look("demo-2", named, image)
	first := b.asked[0].Messages
	if got := b.shownImages(); len(got) != 1 {
		t.Fatalf("the model is shown %d images", len(got))
	}
	b.look("demo-3", named)
	if got := b.shownImages(); len(got) != 2 {
		t.Errorf("the model is shown %d images, of which the Session has counted 2", len(got))
	}
	if next := b.asked[0].Messages; !reflect.DeepEqual(next[:len(first)], first) {
		t.Errorf("the next request begins with other messages than the one before")
	}
}

// Rules: IMG-03. A message that is refused because of the images that it names does not end its Session: they are not
// sent later either.
func TestAMessageWithTooManyImagesEndsItsTurnAlone(t *testing.T) {
	b := stored(t, memory.New(), recordmemory.New())
	id := b.put(owner, imagetest.PNG(sessionimage.MaxImageBytes, "large"))
	turn := newTurn("demo-1")
	turn.Content = slices.Repeat([]event.Part{imageNamed(id)}, 32)
	if _, err := b.RefuseTooLarge(t.Context(), turn, &fairshare.TooLargeError{}); err != nil {
		t.Fatal(err)
	}
	view, err := b.Log.View(t.Context(), session, 0)
	if err != nil || view.Conversation > 100_000 {
		t.Errorf("the conversation has %d bytes, %v", view.Conversation, err)
	}
	b.look("demo-2", imageNamed(id))
	if got := b.shownImages(); len(got) != 1 || !strings.Contains(b.asked[0].Messages[0].PlainText(), noteImageMissing) {
		t.Errorf("the next Turn shows %d images and %.300q", len(got), b.asked[0].Messages[0].PlainText())
	}
}

// Rules: IMG-03. The images that the messages or results of a step name have at most the bytes that a Session may have:
// each image once is never more.
func TestNamedImagesAreBounded(t *testing.T) {
	b := stored(t, memory.New(), recordmemory.New())
	named := imageNamed(b.put(owner, imagetest.PNG(sessionimage.MaxImageBytes, "large")))
	small := imageNamed(b.put(owner, imagetest.PNG(100, "small")))
	parts := append(slices.Repeat([]event.Part{named}, 5), small)
	shows := func(want, notes int) {
		t.Helper()
		var text string
		for _, m := range b.asked[len(b.asked)-1].Messages {
			text += m.PlainText()
		}
		if got := b.shownImages(); len(got) != want || strings.Count(text, noteImageMissing) != notes {
			t.Errorf("the model is shown %d images and %.400q", len(got), text)
		}
	}
	b.look("demo-1", parts...)
	shows(4, 2)
	first := newTurn("demo-2")
	first.Ref.UID, first.Progress = "uid-2", plan.Begin(2, b.micro())
	first.Steers = func(context.Context) ([]turnstate.Steer, error) {
		return []turnstate.Steer{
			{Ref: v1alpha1.JournalTurn{Name: "demo-3", UID: "steer-3"}, Content: parts[:2]},
			{Ref: v1alpha1.JournalTurn{Name: "demo-4", UID: "steer-4"}, Content: parts[2:]},
		}, nil
	}
	next, _ := b.reason(first, with())
	next.Steers = nil
	b.reason(next, with())
	shows(8, 4)
}

// Rules: IMG-03. A size that a part has and the image has not does not count either.
func TestAnImageOfAnotherSizeIsNotSent(t *testing.T) {
	b := stored(t, memory.New(), recordmemory.New())
	part := imageNamed(b.put(owner, imagetest.PNG(30_000, "a")))
	part.MediaType, part.ImageBytes = "image/png", 1
	right := part
	right.ImageBytes = 30_000
	b.look("demo-1", part, right)
	if got := b.shownImages(); len(got) != 1 || !strings.Contains(b.asked[0].Messages[0].PlainText(), noteImageMissing) {
		t.Errorf("the model is shown %d images and %q", len(got), b.asked[0].Messages[0].PlainText())
	}
}

// Rules: IMG-03. The images that a message or the conversation names are read in memory that the Share has.
func TestAModelCallHasRoomForItsImages(t *testing.T) {
	b := stored(t, memory.New(), recordmemory.New())
	const size = 1 << 20
	id := b.put(owner, imagetest.PNG(size, "a"))
	needed := fairshare.ConversationBytes(size / 3 * 4)
	var held fairshare.Amount
	for n, content := range [][]event.Part{{imageNamed(id)}, {event.Text("And now?")}} {
		view, err := b.Log.View(t.Context(), session, 0)
		if err != nil {
			t.Fatal(err)
		}
		turn := newTurn("demo-" + string(rune('1'+n)))
		turn.Content, turn.Progress = content, plan.Begin(view.Head+1, b.micro())
		turn.Ref.UID += types.UID(turn.Ref.Name)
		for _, total := range []int64{8 << 20, 64 << 20} {
			pool := fairshare.NewPool(fairshare.Options{Total: fairshare.Amount{Places: 2, Bytes: total}})
			ctx, share := under(t, pool, CallBytes(turn, 0))
			b.asked = nil
			b.answer = func(model.Request) (*model.Response, error) {
				held = share.Amount()
				return &model.Response{Text: "Hello."}, nil
			}
			_, err := b.Reason(ctx, turn, with())
			var tooLarge *fairshare.TooLargeError
			if refused := total < needed; errors.As(err, &tooLarge) != refused || (len(b.asked) == 0) != refused ||
				!refused && held.Bytes < needed {
				t.Errorf("%s, with %d bytes: %v, %d calls under %+v", turn.Ref.Name, total, err, len(b.asked), held)
			}
		}
	}
}
