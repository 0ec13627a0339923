package step

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// addresses are the images in a request, in order.
func addresses(r model.Request) []string {
	var urls []string
	for _, m := range r.Messages {
		for _, image := range m.Images() {
			urls = append(urls, image.URL)
		}
	}
	return urls
}

// expires makes the provider refuse every request with an image at one of some addresses. names reports whether it
// names the address.
func (b *bench) expires(names bool, expired ...string) {
	b.answer = func(r model.Request) (*model.Response, error) {
		for _, url := range addresses(r) {
			if slices.Contains(expired, url) {
				said := "Timeout while downloading"
				if names {
					said += " " + url
				}
				err := provider.WithProblem(provider.StatusError("Test", "m", 400, 0, "invalid_value"), said)
				return nil, provider.WithImage(err, said, []string{"while downloading"}, nil)
			}
		}
		return &model.Response{Text: "I see."}, nil
	}
}

// look runs a Turn of one step whose message has images, behind the Turns before it.
func (b *bench) look(name string, images ...event.Part) (turnstate.Turn, []event.LLMGeneration) {
	b.t.Helper()
	view, err := b.Log.View(b.t.Context(), session, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	turn := newTurn(name)
	turn.Ref.UID, turn.Progress = types.UID(name+"-uid"), plan.Begin(view.Head+1, b.micro())
	turn.Content = append([]event.Part{event.Text("Look.")}, images...)
	b.asked = nil
	turn, closed := b.reason(turn, with())
	return turn, generations(b.t, closed)
}

func pictures(urls ...string) []event.Part {
	var images []event.Part
	for _, url := range urls {
		images = append(images, event.Part{Type: event.PartImage, MediaType: "image/png", URL: url})
	}
	return images
}

const ship, harbour = "https://example.org/ship.png", "https://example.org/harbour.png"

// TestAnImageThatCannotBeFetchedIsReplacedByANote: after a second try, for this request and all later ones. An image of
// the Turn's own message stays if one before it may be the cause.
func TestAnImageThatCannotBeFetchedIsReplacedByANote(t *testing.T) {
	b := newBench(t)
	pauses := b.pausing()
	b.expires(false)
	b.look("demo-1", pictures(ship)...)
	b.expires(false, ship)
	turn, all := b.look("demo-2", pictures(harbour)...)
	if turn.Progress.Output != "I see." || len(b.asked) != 3 {
		t.Fatalf("asked %d times: %+v", len(b.asked), turn.Progress)
	}
	if !slices.Equal(addresses(b.asked[1]), []string{ship, harbour}) ||
		!slices.Equal(addresses(b.asked[2]), []string{harbour}) {
		t.Errorf("the model is shown %v and %v", addresses(b.asked[1]), addresses(b.asked[2]))
	}
	if !slices.Equal(*pauses, []time.Duration{time.Second}) {
		t.Errorf("the pauses are %v", *pauses)
	}
	if len(all) != 1 || all[0].ImagesDropped != 1 || all[0].Tries != 3 {
		t.Errorf("the log says %+v", all)
	}
	b.look("demo-3")
	if len(b.asked) != 1 || !slices.Equal(addresses(b.asked[0]), []string{harbour}) ||
		!strings.Contains(b.asked[0].Messages[0].PlainText(), "could not read this image") {
		t.Errorf("the next Turn asks %d times, with %+v", len(b.asked), b.asked[0].Messages)
	}
	inspected, err := b.Inspect(t.Context(), session, "", with())
	if err != nil || !slices.Equal(addresses(inspected), []string{harbour}) || inspected.User != b.asked[0].User {
		t.Errorf("the next request would be %+v, %v", inspected, err)
	}
	if got := b.transcript()[0].Images(); len(got) != 1 || got[0].URL != ship {
		t.Errorf("the log has %+v", got)
	}
}

func TestOnlyTheImageThatTheProviderNamesIsLeftOut(t *testing.T) {
	b := newBench(t)
	b.pausing()
	b.expires(true, harbour)
	if turn, _ := b.look("demo-1", pictures(ship, harbour)...); turn.Progress.Output != "I see." ||
		!slices.Equal(addresses(b.asked[len(b.asked)-1]), []string{ship}) {
		t.Errorf("%+v with %v", turn.Progress, addresses(b.asked[len(b.asked)-1]))
	}
	// Of many, one after the other is left out only a few times.
	var many []string
	for i := range 10 {
		many = append(many, ship+strings.Repeat("x", i))
	}
	b = newBench(t)
	b.pausing()
	b.expires(true, many...)
	if turn, all := b.look("demo-1", pictures(many...)...); turn.Progress.Output != "I see." || len(b.asked) != 6 ||
		all[0].ImagesDropped != 10 {
		t.Errorf("asked %d times: %+v, %+v", len(b.asked), turn.Progress, all)
	}
}

func TestAnImageThatIsFetchedAtTheSecondTryStays(t *testing.T) {
	b := newBench(t)
	b.pausing()
	b.expires(false, ship)
	refuses := b.answer
	b.answer = func(r model.Request) (*model.Response, error) {
		if len(b.asked) == 1 {
			return refuses(r)
		}
		return &model.Response{Text: "I see."}, nil
	}
	_, all := b.look("demo-1", pictures(ship)...)
	b.look("demo-2")
	if all[0].ImagesDropped != 0 || !slices.Equal(addresses(b.asked[0]), []string{ship}) {
		t.Errorf("the log says %+v, the next Turn shows %v", all, addresses(b.asked[0]))
	}
}

// TestAnImageThatCannotBeReadIsLeftOutAtOnce: also one by value, which no second try would help.
func TestAnImageThatCannotBeReadIsLeftOutAtOnce(t *testing.T) {
	b := newBench(t)
	pauses := b.pausing()
	b.answer = func(r model.Request) (*model.Response, error) {
		if len(addresses(r)) > 0 {
			err := provider.StatusError("Test", "m", 400, 0, "")
			return nil, provider.WithImage(err, "Could not process image", nil, []string{"could not process image"})
		}
		return &model.Response{Text: "I see."}, nil
	}
	turn, all := b.look("demo-1", event.Part{Type: event.PartImage, MediaType: "image/png", Base64: "aW1n"})
	if turn.Progress.Output != "I see." || len(b.asked) != 2 || len(*pauses) > 0 || all[0].ImagesDropped != 1 {
		t.Errorf("asked %d times: %+v, %+v", len(b.asked), turn.Progress, all)
	}
}

// TestARefusalThatNoImageExplainsEndsTheTurn with what the provider says.
func TestARefusalThatNoImageExplainsEndsTheTurn(t *testing.T) {
	b := newBench(t)
	b.pausing()
	b.answer = func(model.Request) (*model.Response, error) {
		err := provider.WithProblem(provider.StatusError("Test", "m", 400, 0, ""), "Timeout while downloading")
		return nil, provider.WithImage(err, "Timeout while downloading", []string{"while downloading"}, nil)
	}
	turn, _ := b.look("demo-1", pictures(ship)...)
	if e := turn.Progress.Error; e == nil || e.Code != v1alpha1.ErrorCodeProcessingError ||
		e.Fields[v1alpha1.ErrorFieldProblem] != "Timeout while downloading" || len(b.asked) != 3 {
		t.Errorf("asked %d times, error %+v", len(b.asked), e)
	}
}
