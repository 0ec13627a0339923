package step

import (
	"bytes"
	"context"
	"encoding/base64"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
	"github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	recordmemory "github.com/capstan-dev/capstan/internal/runtime/record/memory"
	"github.com/capstan-dev/capstan/internal/runtime/sessionimage"
	"github.com/capstan-dev/capstan/internal/runtime/sessionimage/imagetest"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/content"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
	"github.com/capstan-dev/capstan/internal/testing/images"
)

// stored is a Runner whose Sessions have stores.
func stored(t *testing.T, store *memory.Store, objects record.Objects) *bench {
	t.Helper()
	b := onStore(t, store)
	b.Records = record.New(objects, record.Options{})
	return b
}

// owner is the Session whose stores the tests use.
var owner = record.Session{Namespace: session.Namespace, Name: session.Name, UID: session.UID}

// put stores an image of a Session.
func (b *bench) put(of record.Session, content []byte) string {
	b.t.Helper()
	info, err := sessionimage.Of(b.Records, of).Create(b.t.Context(), record.Cause{}, sessionimage.Draft{
		ContentType: "image/png", Bytes: content,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return info.ID
}

// journalHas reports whether an entry of the journal has a text.
func (b *bench) journalHas(text string) bool {
	b.t.Helper()
	view, err := b.Log.View(b.t.Context(), session, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	for ordinal := int64(1); ordinal <= view.Head; ordinal++ {
		spec, err := b.store.Get(b.t.Context(), session, ordinal)
		if err != nil {
			b.t.Fatal(err)
		}
		e, err := format.Decode(spec)
		if err != nil {
			b.t.Fatal(err)
		}
		for _, v := range e.Events {
			if v.Data != nil && bytes.Contains(v.Data.Raw, []byte(text)) {
				return true
			}
		}
	}
	return false
}

func inline(content []byte) event.Part {
	return event.Part{
		Type: event.PartImage, MediaType: "image/png", Base64: base64.StdEncoding.EncodeToString(content),
	}
}

func imageNamed(id string) event.Part { return event.Part{Type: event.PartImage, ImageID: id} }

// shownImages are the images of the last request, as a provider would be sent them.
func (b *bench) shownImages() []string {
	var all []string
	for _, m := range b.asked[len(b.asked)-1].Messages {
		for _, p := range m.Images() {
			all = append(all, p.MediaType+" "+p.Base64)
		}
	}
	return all
}

// reading are objects that count the reads of indexes.
type reading struct {
	record.Objects
	reads int
}

func (r *reading) ReadIndex(ctx context.Context, scope record.Scope) (record.Stored, error) {
	r.reads++
	return r.Objects.ReadIndex(ctx, scope)
}

// Rules: IMG-02, IMG-03. The journal names the images of messages; models are sent the same bytes as before, also by
// another process, until an image is deleted.
func TestImagesOfMessagesAreStoredBesideTheJournal(t *testing.T) {
	store, objects := memory.New(), &reading{Objects: recordmemory.New()}
	b := stored(t, store, objects)
	image := inline(imagetest.PNG(30_000, "ship"))
	b.look("demo-1", image, image)
	want := []string{"image/png " + image.Base64, "image/png " + image.Base64}
	if got := b.shownImages(); !reflect.DeepEqual(got, want) {
		t.Errorf("the model is shown %d images", len(got))
	}
	if b.journalHas(image.Base64[:100]) {
		t.Error("the journal has the bytes of an image")
	}
	id := sessionimage.IDOf(imagetest.PNG(30_000, "ship"))
	if got := b.transcript()[0].Images(); len(got) != 2 || got[0].ImageID != id || got[0].ImageBytes != 30_000 ||
		got[0].MediaType != "image/png" || got[0].Base64 != "" || got[0].ImageDigest() != image.ImageDigest() {
		t.Errorf("the journal has %+v", got)
	}
	b = stored(t, store, objects)
	b.look("demo-2")
	if got := b.shownImages(); !reflect.DeepEqual(got, want) {
		t.Errorf("the next process shows the model %.200q", got)
	}
	objects.reads = 0
	if next, err := b.Conversation(t.Context(), session); err != nil || next[0].Images()[0].ImageID == "" ||
		objects.reads != 0 {
		t.Errorf("to look at the conversation reads %d images: %+.200v, %v", objects.reads, next[0], err)
	}
	if b.transcript()[0].Images()[0].Base64 != "" {
		t.Error("the cached conversation has the bytes of an image")
	}
	if all, err := sessionimage.Of(b.Records, owner).List(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("the Session has the images %+v, %v", all, err)
	}
	if existed, err := sessionimage.Of(b.Records, owner).Delete(t.Context(), record.Cause{}, id); !existed || err != nil {
		t.Fatal(existed, err)
	}
	turn, _ := b.look("demo-3")
	if got := b.asked[0].Messages[0]; len(got.Images()) != 0 || strings.Count(got.PlainText(), noteImageMissing) != 2 ||
		turn.Progress.Output != "Hello." {
		t.Errorf("without the image the model reads %+v, and the Turn is %+v", got, turn.Progress)
	}
}

// Rules: IMG-03. A message may name an image; one of another Session is missing.
func TestAMessageNamesAnImage(t *testing.T) {
	b := stored(t, memory.New(), recordmemory.New())
	large := imagetest.PNG(sessionimage.MaxImageBytes, "large")
	id := b.put(owner, large)
	foreign := b.put(record.Session{Namespace: "ns", Name: "other", UID: "other-uid"}, imagetest.PNG(100, "secret"))
	turn, _ := b.look("demo-1", imageNamed(id), imageNamed(foreign), imageNamed("img-0"))
	got := b.asked[0].Messages[0]
	if all := got.Images(); len(all) != 1 || all[0].Base64 != base64.StdEncoding.EncodeToString(large) ||
		strings.Count(got.PlainText(), noteImageMissing) != 2 || turn.Progress.Output != "Hello." {
		t.Errorf("the model is shown %d images and %.300q", len(all), got.PlainText())
	}
	recorded := b.transcript()[0].Images()
	if len(recorded) != 3 || recorded[0].MediaType != "image/png" ||
		recorded[0].ImageBytes != sessionimage.MaxImageBytes || recorded[1].ImageBytes != 0 {
		t.Errorf("the journal has %+v", recorded)
	}
	view, err := b.Log.View(t.Context(), session, 0)
	if err != nil || view.Bytes > 20_000 || view.Conversation < 5<<20 || b.Log.KnownConversation(session.UID) < 5<<20 {
		t.Errorf("the journal has %d bytes, the conversation %d, %v", view.Bytes, view.Conversation, err)
	}
}

// Rules: IMG-03. The message of a Turn by its parts identifies it, whether an image of it exists or not.
func TestATurnIsRecalledByTheImageThatItNames(t *testing.T) {
	b := stored(t, memory.New(), recordmemory.New())
	id := b.put(owner, imagetest.PNG(100, "a"))
	part := func(id string) v1alpha1.MessagePart {
		return v1alpha1.MessagePart{ImageRef: &v1alpha1.MessageImageRef{ID: id}}
	}
	b.reason(inParts(newTurn("demo-1"), textPart("Look"), part(id)), with())
	if len(b.shownImages()) != 1 {
		t.Errorf("the model is shown %v", b.shownImages())
	}
	if _, err := sessionimage.Of(b.Records, owner).Delete(t.Context(), record.Cause{}, id); err != nil {
		t.Fatal(err)
	}
	next := newTurn("demo-1")
	next.Ref.UID = "uid-2"
	for other, same := range map[string]bool{id: true, sessionimage.IDOf(nil): false} {
		recalled, err := b.Recall(t.Context(), inParts(next, textPart("Look"), part(other)), 0)
		if err != nil || recalled == nil || recalled.SameMessage != same {
			t.Errorf("recalled %+v, %v", recalled, err)
		}
	}
}

// failing are objects whose reads or writes fail.
type failing struct {
	record.Objects
	reads, writes bool
}

func (f *failing) ReadIndex(ctx context.Context, scope record.Scope) (record.Stored, error) {
	if f.reads {
		return record.Stored{}, errDown
	}
	return f.Objects.ReadIndex(ctx, scope)
}

func (f *failing) WriteIndex(ctx context.Context, scope record.Scope, index record.Stored) error {
	if f.writes {
		return record.ErrRefused
	}
	return f.Objects.WriteIndex(ctx, scope, index)
}

// Rules: IMG-03. A store that fails ends no Turn: what cannot be stored is in the journal, what cannot be read is a
// note.
func TestAStoreThatFailsEndsNoTurn(t *testing.T) {
	store, objects := memory.New(), &failing{Objects: recordmemory.New()}
	b := stored(t, store, objects)
	first, second := inline(imagetest.PNG(5000, "first")), inline(imagetest.PNG(5000, "second"))
	b.look("demo-1", first)
	objects.writes = true
	b.look("demo-2", second)
	if b.journalHas(first.Base64) || !b.journalHas(second.Base64) {
		t.Error("the journal has the stored image, or lacks the one that was refused")
	}
	objects.reads = true
	b = stored(t, store, objects)
	turn, _ := b.look("demo-3", imageNamed(sessionimage.IDOf(nil)))
	if got := b.asked[0].Messages; turn.Progress.Output != "Hello." || len(got) != 5 ||
		!strings.Contains(got[0].PlainText(), noteImageUnread) || !strings.Contains(got[4].PlainText(), noteImageMissing) ||
		!reflect.DeepEqual(b.shownImages(), []string{"image/png " + second.Base64}) {
		t.Errorf("the model reads %+.500v", got)
	}
	objects.reads, objects.writes = false, false
	b.look("demo-4")
	if len(b.shownImages()) != 2 {
		t.Errorf("when the store is back, the model is shown %d images", len(b.shownImages()))
	}
}

// stuck are objects whose writes take as long as they may, or until they are released.
type stuck struct {
	record.Objects
	released chan struct{}
}

func (s *stuck) WriteIndex(ctx context.Context, _ record.Scope, _ record.Stored) error {
	select {
	case <-ctx.Done():
	case <-s.released:
	}
	return record.ErrRefused
}

// occupied is the store of a Session that another operation changes until the test ends.
func (b *bench) occupied() {
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.t.Context()))
	ended, begun := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_, err := b.Records.Update(ctx, sessionimage.ScopeOf(owner), record.Cause{},
			func(ctx context.Context, _ *record.Index) (*record.Operation, error) {
				close(begun)
				<-ctx.Done()
				return nil, ctx.Err()
			})
		if err == nil {
			b.t.Error("the other operation was carried out")
		}
	}()
	<-begun
	b.t.Cleanup(func() {
		cancel()
		<-ended
	})
}

// Rules: IMG-03. A pass that closes a step does not wait for its images: they are in the entry then.
func TestAStepIsClosedWithoutItsImagesStored(t *testing.T) {
	image := imagetest.PNG(5000, "result")
	closings := map[string]func(*bench) error{
		"act": func(b *bench) error {
			turn, bulk := b.acting()
			b.occupied()
			_, err := b.Act(b.t.Context(), turn, facts{
				Outcomes: map[string]tool.Outcome{
					"1-0": succeeded(content.FromImage("image/png", image, int64(len(image)))),
				},
				Planned: bulk,
			}.step())
			return err
		},
		"cancel": func(b *bench) error {
			turn := newTurn("demo-1")
			turn.Content = []event.Part{inline(image), imageNamed(b.put(owner, imagetest.PNG(100, "a")))}
			b.occupied()
			_, err := b.Cancel(b.t.Context(), turn, nil)
			return err
		},
		"slow writes": func(b *bench) error {
			objects := &stuck{recordmemory.New(), make(chan struct{})}
			b.t.Cleanup(func() { close(objects.released) })
			b.Records = record.New(objects, record.Options{})
			turn := newTurn("demo-1")
			turn.Content = []event.Part{inline(image)}
			_, err := b.Cancel(b.t.Context(), turn, nil)
			return err
		},
	}
	for name, closing := range closings {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := stored(t, memory.New(), recordmemory.New())
				began := time.Now()
				if err := closing(b); err != nil {
					t.Fatal(err)
				}
				if waited := time.Since(began); waited > 2*time.Second {
					t.Errorf("the step was closed after %s", waited)
				}
				if !b.journalHas(inline(image).Base64) {
					t.Error("the journal lacks the image")
				}
			})
		})
	}
}

// Rules: IMG-03. A response whose images could not be stored waits for them once.
func TestAResponseWaitsOnceForItsImages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := stored(t, memory.New(), recordmemory.New())
		b.occupied()
		began := time.Now()
		b.look("demo-1", inline(imagetest.PNG(5000, "a")))
		if waited := time.Since(began); waited > storeTimeout+time.Second {
			t.Errorf("the step was closed after %s", waited)
		}
	})
}

// Rules: IMG-03. Images for which the Session has no room, and what is not an image, stay in the journal.
func TestWhatIsNotStoredStaysInTheJournal(t *testing.T) {
	b := stored(t, memory.New(), recordmemory.New())
	for _, fill := range []string{"a", "b", "c"} {
		b.put(owner, imagetest.PNG(sessionimage.MaxImageBytes, fill))
	}
	large := inline(imagetest.PNG(sessionimage.MaxBytes-3*sessionimage.MaxImageBytes, "d"))
	full := inline(imagetest.PNG(200_000, "e"))
	script := event.Part{Type: event.PartImage, MediaType: "image/png", Base64: "PHNjcmlwdD4="}
	unpadded := event.Part{Type: event.PartImage, MediaType: "image/png", Base64: "iVBORw0KGgp="} // has unused bits
	b.look("demo-1", large, full, script, unpadded)
	got := b.transcript()[0].Images()
	if len(got) != 4 || got[0].ImageID == "" || got[1].Base64 != full.Base64 || got[2].Base64 != script.Base64 ||
		got[3].Base64 != unpadded.Base64 {
		t.Errorf("the journal has %+.300v", got)
	}
	b.look("demo-2")
	want := []string{
		"image/png " + large.Base64, "image/png " + full.Base64, "image/png PHNjcmlwdD4=",
		"image/png iVBORw0KGgp=",
	}
	if !reflect.DeepEqual(b.shownImages(), want) {
		t.Errorf("the model is shown %d images", len(b.shownImages()))
	}
}

// Rules: IMG-03. An image that a provider has refused is left out of later requests, also when it was stored since.
func TestAStoredImageThatWasRefusedIsLeftOut(t *testing.T) {
	b := stored(t, memory.New(), recordmemory.New())
	b.pausing()
	b.answer = func(r model.Request) (*model.Response, error) {
		if len(images.Addresses(r)) == 0 {
			return &model.Response{Text: "I see."}, nil
		}
		const problem = "Could not process image"
		err := provider.WithProblem(provider.StatusError("Test", "m", 400, 0, "invalid_value"), problem)
		return nil, provider.WithImage(err, problem, nil, []string{"could not process image"})
	}
	other := b.put(owner, imagetest.PNG(100, "bad"))
	turn, all := b.look("demo-1", inline(imagetest.PNG(100, "broken")), imageNamed(other))
	if turn.Progress.Output != "I see." || len(all) != 1 || all[0].ImagesDropped != 2 {
		t.Fatalf("the Turn is %+v, the call %+v", turn.Progress, all)
	}
	b.look("demo-2")
	if len(b.asked) != 1 || len(b.shownImages()) != 0 {
		t.Errorf("the next Turn asks %d times, with %d images", len(b.asked), len(b.shownImages()))
	}
}

// Rules: IMG-03. A message that steers a Turn has its images stored as well.
func TestImagesOfMessagesThatSteerAreStored(t *testing.T) {
	b := stored(t, memory.New(), recordmemory.New())
	image := inline(imagetest.PNG(5000, "steer"))
	first := newTurn("demo-1")
	first.Steers = func(context.Context) ([]turnstate.Steer, error) {
		return []turnstate.Steer{{
			Ref: v1alpha1.JournalTurn{Name: "demo-2", UID: "steer-uid"}, Content: []event.Part{image},
		}}, nil
	}
	next, _ := b.reason(first, with())
	if b.journalHas(image.Base64) {
		t.Error("the journal has the bytes of an image")
	}
	b.answer = func(model.Request) (*model.Response, error) {
		return &model.Response{Text: "Done.", FinishReason: model.FinishStop}, nil
	}
	next.Steers = nil
	b.reason(next, with())
	if got := b.shownImages(); !reflect.DeepEqual(got, []string{"image/png " + image.Base64}) {
		t.Errorf("the model is shown %.200q", got)
	}
}
