package modelcall

import (
	"slices"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
	"github.com/capstan-dev/capstan/internal/testing/images"
)

// look calls a Model for a message with images.
func (b *bench) look(images ...event.Part) Result {
	b.t.Helper()
	message := event.NewUserMessage("Look.")
	message.Content = append(message.Content, images...)
	r := request([]event.Message{message}, named("m"))
	r.Input = message.ID
	all, err := b.call(r)
	if err != nil || len(all) != 1 {
		b.t.Fatalf("the results are %+v, %v", all, err)
	}
	return all[0]
}

func pictures(urls ...string) []event.Part {
	var images []event.Part
	for _, url := range urls {
		images = append(images, event.Part{Type: event.PartImage, MediaType: "image/png", URL: url})
	}
	return images
}

const ship, harbour = "https://example.org/ship.png", "https://example.org/harbour.png"

func TestOnlyTheImageThatTheProviderNamesIsLeftOut(t *testing.T) {
	b := newBench(t)
	b.answer = images.Expire(true, harbour)
	if got := b.look(pictures(ship, harbour)...); got.Err != nil ||
		!slices.Equal(images.Addresses(b.requests[len(b.requests)-1]), []string{ship}) {
		t.Errorf("%v with %v", got.Err, images.Addresses(b.requests[len(b.requests)-1]))
	}
	// Of many, one after the other is left out only a few times.
	var many []string
	for i := range 10 {
		many = append(many, ship+strings.Repeat("x", i))
	}
	b = newBench(t)
	b.answer = images.Expire(true, many...)
	if got := b.look(pictures(many...)...); got.Err != nil || len(b.requests) != 6 || len(got.ImagesLeftOut) != 10 {
		t.Errorf("called %d times: %+v", len(b.requests), got)
	}
}

func TestAnImageThatIsFetchedAtTheSecondTryStays(t *testing.T) {
	b := newBench(t)
	b.answer = images.Expire(false, ship)
	refuses := b.answer
	b.answer = func(r model.Request) (*model.Response, error) {
		if len(b.requests) == 1 {
			return refuses(r)
		}
		return &model.Response{Text: "I see."}, nil
	}
	got := b.look(pictures(ship)...)
	if got.Err != nil || len(got.ImagesLeftOut) != 0 || got.Message(nil).Metadata != nil ||
		!slices.Equal(images.Addresses(b.requests[1]), []string{ship}) {
		t.Errorf("the result is %+v, the second request shows %v", got, images.Addresses(b.requests[1]))
	}
}

// TestAnImageThatCannotBeReadIsLeftOutAtOnce: also one by value, which no second try would help.
func TestAnImageThatCannotBeReadIsLeftOutAtOnce(t *testing.T) {
	b := newBench(t)
	b.answer = func(r model.Request) (*model.Response, error) {
		if len(images.Addresses(r)) > 0 {
			err := provider.StatusError("Test", "m", 400, 0, "")
			return nil, provider.WithImage(err, "Could not process image", nil, []string{"could not process image"})
		}
		return &model.Response{Text: "I see."}, nil
	}
	got := b.look(event.Part{Type: event.PartImage, MediaType: "image/png", Base64: "aW1n"})
	if got.Err != nil || len(b.requests) != 2 || len(b.pauses) > 0 || len(got.ImagesLeftOut) != 1 {
		t.Errorf("called %d times: %+v", len(b.requests), got)
	}
	if left := got.Message(nil).Metadata[event.MetadataImagesRefused]; left != got.ImagesLeftOut[0] {
		t.Errorf("the message has %q", left)
	}
}

// TestARefusalThatNoImageExplainsIsAFailure with the provider's message.
func TestARefusalThatNoImageExplainsIsAFailure(t *testing.T) {
	b := newBench(t)
	b.answer = func(model.Request) (*model.Response, error) {
		err := provider.WithProblem(provider.StatusError("Test", "m", 400, 0, ""), "Timeout while downloading")
		return nil, provider.WithImage(err, "Timeout while downloading", []string{"while downloading"}, nil)
	}
	failure := b.look(pictures(ship)...).Failure()
	if failure.Code != v1alpha1.ErrorCodeProcessingError ||
		failure.Fields[v1alpha1.ErrorFieldProblem] != "Timeout while downloading" || len(b.requests) != 3 {
		t.Errorf("called %d times, failure %+v", len(b.requests), failure)
	}
}

func TestTheImagesBeforeTheMessageAreLeftOutFirst(t *testing.T) {
	b := newBench(t)
	b.answer = images.Expire(false, ship)
	before, input := event.NewUserMessage("Look."), event.NewUserMessage("Look again.")
	before.Content = append(before.Content, pictures(ship)...)
	input.Content = append(input.Content, pictures(harbour)...)
	r := request([]event.Message{before, input}, named("m"))
	r.Input = input.ID
	if _, err := b.call(r); err != nil || !slices.Equal(images.Addresses(b.requests[2]), []string{harbour}) {
		t.Errorf("the last request shows %v, %v", images.Addresses(b.requests[len(b.requests)-1]), err)
	}
}
