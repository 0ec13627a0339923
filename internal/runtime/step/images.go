package step

import (
	"context"
	"encoding/base64"
	"slices"
	"time"

	"github.com/go-logr/logr"

	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/sessionimage"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

const (
	// noteImageMissing and noteImageUnread stand in a prompt for an image that is named by its id.
	noteImageMissing = "(Left out: an image that this session does not have any more, or did not have when it was named.)"
	noteImageUnread  = "(Left out: an image that could not be read now.)"
	// storeTimeout bounds the time for which a model's response waits for the images of its step to be stored, and
	// passTimeout that for which a pass of a reconciler waits: it must not wait for a place to close a step.
	storeTimeout = 20 * time.Second
	passTimeout  = time.Second
)

// imagesOf returns the images of a Session; nil if the process has no stores.
func (run *Runner) imagesOf(s journal.Session) *sessionimage.Images {
	if run.Records == nil {
		return nil
	}
	return sessionimage.Of(run.Records, record.Session{Namespace: s.Namespace, Name: s.Name, UID: s.UID})
}

// storeImages stores the images that events have by value, and returns the events with their ids instead, so that the
// journal has no images. An image that cannot be stored in the given time, or for which there is no room, stays where
// it is: it must not keep a step from ending. Images that events name by their ids are described, but for those of the
// Turn's own message: a model may have been sent it already, with a note in place of an image that was not described.
func (run *Runner) storeImages(
	ctx context.Context, t turnstate.Turn, events []event.Event, wait time.Duration,
) []event.Event {
	images := run.imagesOf(t.Session)
	if images == nil {
		return events
	}
	own, others := split(t, events)
	drafts, _, err := imagesIn(own)
	further, named, err2 := imagesIn(others)
	drafts = append(drafts, further...)
	if err != nil || err2 != nil || len(drafts)+len(named) == 0 {
		return events // The next reader of events that cannot be decoded reports them.
	}
	known, err := atMost(ctx, wait, func(ctx context.Context) (map[string]sessionimage.Info, error) {
		if len(drafts) == 0 {
			return images.Describe(ctx, named)
		}
		return images.Keep(ctx, drafts, named)
	})
	if err != nil {
		logr.FromContextOrDiscard(ctx).Info("Failed to store the images of a step; its journal entry has them",
			"error", err.Error())
		return events
	}
	own, err = event.ReplaceImages(own, func(p event.Part) event.Part {
		if p.ImageID != "" {
			return p
		}
		return storedPart(p, known)
	})
	if err != nil {
		return events
	}
	describe := describing(known)
	others, err = event.ReplaceImages(others, func(p event.Part) event.Part {
		if p.ImageID != "" {
			return describe(p)
		}
		return storedPart(p, known)
	})
	if err != nil {
		return events
	}
	return slices.Concat(own, others)
}

// atMost calls a function, and does not wait longer for it than given. A write to a store has a time limit of its own
// and is not cancelled with its context: it may end later, and harms nothing then.
func atMost[A any](ctx context.Context, wait time.Duration, call func(context.Context) (A, error)) (A, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	type result struct {
		value A
		err   error
	}
	ended := make(chan result, 1)
	go func() {
		defer cancel()
		value, err := call(ctx)
		ended <- result{value, err}
	}()
	select {
	case r := <-ended:
		return r.value, r.err
	case <-ctx.Done():
		select {
		case r := <-ended:
			return r.value, r.err
		default:
		}
		var none A
		return none, ctx.Err()
	}
}

// split returns the event with the message of the Turn itself, if a record has it, and the other events.
func split(t turnstate.Turn, events []event.Event) (own, others []event.Event) {
	if t.Step() != 1 || len(events) == 0 || events[0].Type != event.TypeInputMessage {
		return nil, events
	}
	return events[:1], events[1:]
}

// imagesIn returns the images that events have by value, and the ids of those that they name without their sizes.
func imagesIn(events []event.Event) (drafts []sessionimage.Draft, named []string, err error) {
	_, err = event.ReplaceImages(events, func(p event.Part) event.Part {
		if draft, possible := draftOf(p); possible {
			drafts = append(drafts, draft)
		}
		if p.ImageID != "" && p.MediaType == "" {
			named = append(named, p.ImageID)
		}
		return p
	})
	return drafts, named, err
}

// describeImages returns a Turn, whose message must have been read, with the sizes of the images that its message
// names: they take memory when they are read. An image that does not exist, or that cannot be read now, has none, and
// is never sent.
func (run *Runner) describeImages(ctx context.Context, t turnstate.Turn, wait time.Duration) turnstate.Turn {
	images := run.imagesOf(t.Session)
	var named []string
	for _, p := range t.Content {
		if p.ImageID != "" && p.MediaType == "" {
			named = append(named, p.ImageID)
		}
	}
	if images == nil || len(named) == 0 {
		return t
	}
	known, err := atMost(ctx, wait, func(ctx context.Context) (map[string]sessionimage.Info, error) {
		return images.Describe(ctx, named)
	})
	if err != nil {
		logr.FromContextOrDiscard(ctx).Info("Failed to describe the images of a message", "error", err.Error())
		return t
	}
	t.Content = slices.Clone(t.Content)
	describe := describing(known)
	for i, p := range t.Content {
		if p.ImageID != "" {
			t.Content[i] = describe(p)
		}
	}
	return t
}

// describing returns a function that describes the images that parts name. It describes no more bytes of them than a
// Session may have of images, so that they fit into a request: others are named more often than once.
func describing(known map[string]sessionimage.Info) func(event.Part) event.Part {
	left := int64(sessionimage.MaxBytes)
	return func(p event.Part) event.Part {
		info, found := known[p.ImageID]
		if !found || p.MediaType != "" || info.Size > left {
			return p
		}
		left -= info.Size
		p.MediaType, p.ImageBytes = info.ContentType, info.Size
		return p
	}
}

// draftOf returns an image that a part has by value. One whose base64 is not the one that its bytes are written as
// again would not reach the model as it is: it is not stored.
func draftOf(p event.Part) (sessionimage.Draft, bool) {
	if p.ImageID != "" || p.Base64 == "" {
		return sessionimage.Draft{}, false
	}
	content, err := base64.StdEncoding.DecodeString(p.Base64)
	if err != nil || base64.StdEncoding.EncodeToString(content) != p.Base64 {
		return sessionimage.Draft{}, false
	}
	return sessionimage.Draft{ContentType: p.MediaType, Bytes: content}, true
}

// storedPart is an image that a part has by value as the journal has it, with the images that the Session has stored.
func storedPart(p event.Part, known map[string]sessionimage.Info) event.Part {
	draft, possible := draftOf(p)
	if !possible {
		return p
	}
	info, found := known[sessionimage.IDOf(draft.Bytes)]
	if !found || info.ContentType != p.MediaType {
		return p
	}
	return event.Part{Type: event.PartImage, MediaType: p.MediaType, ImageID: info.ID, ImageBytes: info.Size}
}

// resolveImages returns messages with the bytes of the images that they name (IMG-03), for the request that follows. A
// note stands for an image that does not exist, or that cannot be read, and for each that was named with another size
// than it has: the memory of the request is requested by these sizes. The given messages do not change.
func (run *Runner) resolveImages(ctx context.Context, s journal.Session, messages []event.Message) []event.Message {
	images := run.imagesOf(s)
	read := map[string]event.Part{}
	resolved := messages
	for i, m := range messages {
		for j, p := range m.Content {
			if p.Type != event.PartImage || p.ImageID == "" {
				continue
			}
			whole := event.Text(noteImageMissing)
			if p.ImageBytes > 0 && images != nil {
				var known bool
				if whole, known = read[p.ImageID]; !known {
					whole = resolve(ctx, images, p.ImageID)
					read[p.ImageID] = whole
				}
			}
			if whole.Type == event.PartImage && whole.Size() != p.ImageBytes {
				whole = event.Text(noteImageMissing)
			}
			if &resolved[0] == &messages[0] {
				resolved = slices.Clone(messages)
			}
			if &resolved[i].Content[0] == &m.Content[0] {
				resolved[i].Content = slices.Clone(m.Content)
			}
			resolved[i].Content[j] = whole
		}
	}
	return resolved
}

// resolve returns an image with its bytes, or a note in its place.
func resolve(ctx context.Context, images *sessionimage.Images, id string) event.Part {
	found, err := images.Resolve(ctx, id)
	switch {
	case err != nil:
		logr.FromContextOrDiscard(ctx).Info("Failed to read an image of a Session; its model is sent a note instead",
			"image", id, "error", err.Error())
		return event.Text(noteImageUnread)
	case found == nil:
		return event.Text(noteImageMissing)
	default:
		return event.Part{Type: event.PartImage, MediaType: found.MediaType, Base64: found.Base64}
	}
}
