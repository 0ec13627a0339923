package modelcall

import (
	"context"
	"errors"
	"slices"

	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
)

// maxImageRefusals is the number of refusals after which all images are left out that may be refused.
const maxImageRefusals = 4

// imageRefused reports whether a provider refused the messages because of an image, so that the Model is to be called
// again: once more with the same messages where the provider could not fetch the image, which may pass, and then
// without it. begins is the id of the message that the Turn began with.
func (c *Caller) imageRefused(ctx context.Context, a *Result, messages []event.Message, begins string) bool {
	var refused *provider.ImageRefused
	if !errors.As(a.Err, &refused) || ctx.Err() != nil {
		return false
	}
	left := refusable(messages, refused, begins, a.imageRefusals+1 >= maxImageRefusals)
	if len(left) == 0 {
		return false
	}
	if !refused.Unreadable && !a.imageTried {
		a.imageTried = true
		return c.pause(ctx, firstPause) == nil
	}
	a.imageRefusals++
	a.ImagesLeftOut = append(a.ImagesLeftOut, left...)
	return true
}

// refusable returns the digests of the images that are left out after a refusal: those that the provider names;
// otherwise those of the conversation before the Turn, which have had time to expire; otherwise all that the refusal
// may be about. all skips the first two.
func refusable(messages []event.Message, refused *provider.ImageRefused, begins string, all bool) []string {
	var named, earlier, possible []string
	before := true
	for _, m := range messages {
		before = before && m.ID != begins
		for _, image := range m.Images() {
			digest := image.ImageDigest()
			if image.URL == "" && !refused.Unreadable || slices.Contains(possible, digest) {
				continue
			}
			possible = append(possible, digest)
			if refused.Names(image.URL) {
				named = append(named, digest)
			}
			if before {
				earlier = append(earlier, digest)
			}
		}
	}
	switch {
	case all:
		return possible
	case len(named) > 0:
		return named
	case len(earlier) > 0:
		return earlier
	default:
		return possible
	}
}
