package provider

import (
	"slices"

	"github.com/capstan-dev/capstan/internal/runtime/event"
)

// noteOlderImage stands in a request for an image that is left out.
const noteOlderImage = "(Left out: an image. The model provider accepts a limited number, and there are later ones.)"

// imageBatches is the number of batches that the images which an API accepts are left out in.
const imageBatches = 5

// LatestImages replaces the oldest images by a note if there are more than the API accepts in one request. They are
// left out in batches, so that most requests begin with the request before, which the provider has cached. The given
// messages do not change.
func LatestImages(messages []event.Message, most int) []event.Message {
	over := -most
	for _, m := range messages {
		over += len(m.Images())
	}
	if over <= 0 {
		return messages
	}
	batch := max(1, most/imageBatches)
	older := (over + batch - 1) / batch * batch
	kept := slices.Clone(messages)
	for i, m := range kept {
		if older <= 0 {
			break
		}
		kept[i].Content = slices.Clone(m.Content)
		for j, p := range m.Content {
			if p.Type == event.PartImage && older > 0 {
				kept[i].Content[j] = event.Text(noteOlderImage)
				older--
			}
		}
	}
	return kept
}
