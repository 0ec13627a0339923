package sessionimage

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/internal/runtime/record"
)

const (
	// StoreName is the name of the store that has the images of a Session.
	StoreName = "images"

	kindImage = "image"
	kindPart  = "part"

	// maxReads is how often a read begins again when the image is changed meanwhile.
	maxReads = 20
)

// Images are those of a Session. They are safe for concurrent use.
type Images struct {
	store record.Store
	scope record.Scope
}

// Of returns the images of a Session.
func Of(store record.Store, of record.Session) *Images {
	return &Images{store: store, scope: ScopeOf(of)}
}

// ScopeOf returns the store of a Session.
func ScopeOf(of record.Session) record.Scope {
	return of.Scope(StoreName)
}

// full is the text of the error of a Session that has no room.
var full = fmt.Sprintf("The images are full: a session has at most %d images, with %d bytes in all. Delete some.",
	MaxImages, MaxBytes)

// made is the result of creating an image.
type made struct {
	ID string `json:"id"`
}

// Create stores an image, and describes it (IMG-01). The same bytes are stored once: a later filename, and later
// metadata, replace those before. The error has a *record.ExplainedError for an image that cannot be stored.
func (s *Images) Create(ctx context.Context, cause record.Cause, draft Draft) (*Info, error) {
	if err := draft.check(); err != nil {
		return nil, err
	}
	id, result := IDOf(draft.Bytes), &made{}
	err := s.change(ctx, cause, result, func(ctx context.Context, x *record.Index) (*record.Operation, any, error) {
		o, err := s.create(ctx, x, id, draft)
		return o, made{id}, err
	})
	if err != nil {
		return nil, err
	}
	// A repeated call may have other bytes than the first, such as those of a file that was changed since.
	info, err := s.Stat(ctx, result.ID)
	if err != nil {
		return nil, err
	}
	if info == nil { // Another call has deleted it since.
		info = &Info{
			ID: result.ID, Filename: draft.Filename, ContentType: draft.ContentType, Size: int64(len(draft.Bytes)),
			Metadata: draft.Metadata,
		}
	}
	return info, nil
}

// create returns the operation that stores an image; nil if the store has it.
func (s *Images) create(ctx context.Context, x *record.Index, id string, draft Draft) (*record.Operation, error) {
	d := description{Filename: draft.Filename, Size: int64(len(draft.Bytes)), Metadata: draft.Metadata}
	if item, found := x.Find(id); found {
		before, err := s.info(ctx, item)
		if err != nil {
			return nil, err
		}
		if d.Filename == "" {
			d.Filename = before.Filename
		}
		if len(d.Metadata) == 0 {
			d.Metadata = before.Metadata
		}
		if d.Filename == before.Filename && maps.Equal(d.Metadata, before.Metadata) {
			return nil, nil
		}
		put, err := d.put(id, draft.ContentType)
		return &record.Operation{Put: []record.Put{put}}, err
	}
	count, size := tally(x)
	if count >= MaxImages || size+d.Size > MaxBytes {
		return nil, record.Explainf("%s", full)
	}
	puts, err := draft.puts(id)
	return &record.Operation{Put: puts}, err
}

// puts are the writes of an image: its description, and its parts.
func (d *Draft) puts(id string) ([]record.Put, error) {
	put, err := description{
		Filename: d.Filename, Size: int64(len(d.Bytes)), Metadata: d.Metadata,
	}.put(id, d.ContentType)
	if err != nil {
		return nil, err
	}
	puts := []record.Put{put}
	for n, rest := 0, d.Bytes; len(rest) > 0; n++ {
		part := rest[:min(len(rest), record.MaxValueBytes)]
		rest = rest[len(part):]
		puts = append(puts, record.Put{Key: partKey(id, n), Value: part, Kind: kindPart})
	}
	return puts, nil
}

// partKey is the key of a part of an image, counted from 0.
func partKey(id string, n int) string { return fmt.Sprintf("%s/%d", id, n) }

// tally returns the number of images, and the size of their parts.
func tally(x *record.Index) (count int, size int64) {
	for _, item := range x.Items {
		if item.Kind == kindPart {
			size += item.Size
		} else {
			count++
		}
	}
	return count, size
}

// Get returns an image with its bytes; nil if it does not exist.
func (s *Images) Get(ctx context.Context, id string) (*Info, []byte, error) {
	if !IsID(id) {
		return nil, nil, nil
	}
	for range maxReads {
		info, content, err := s.get(ctx, id)
		if !errors.Is(err, record.ErrNotFound) {
			return info, content, err
		}
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
	}
	return nil, nil, fmt.Errorf("reading image %s: it was changed %d times meanwhile", id, maxReads)
}

// get is one attempt to read an image. The error is record.ErrNotFound if it was changed meanwhile.
func (s *Images) get(ctx context.Context, id string) (*Info, []byte, error) {
	x, err := s.store.List(ctx, s.scope)
	if err != nil {
		return nil, nil, fmt.Errorf("reading image %s: %w", id, err)
	}
	item, found := x.Find(id)
	if !found {
		return nil, nil, nil
	}
	info, err := s.info(ctx, item)
	if err != nil {
		return nil, nil, err
	}
	content := make([]byte, 0, min(info.Size, MaxImageBytes))
	for n := 0; int64(len(content)) < info.Size; n++ {
		part, found := x.Find(partKey(id, n))
		if !found {
			break
		}
		value, err := s.store.Load(ctx, s.scope, part)
		if err != nil {
			return nil, nil, fmt.Errorf("reading part %d of image %s: %w", n, id, err)
		}
		content = append(content, value...)
	}
	if IDOf(content) != id {
		return nil, nil, fmt.Errorf("reading image %s: it has other bytes than it was stored with", id)
	}
	return info, content, nil
}

// Stat describes an image without reading its bytes; nil if it does not exist.
func (s *Images) Stat(ctx context.Context, id string) (*Info, error) {
	if !IsID(id) {
		return nil, nil
	}
	item, value, err := s.store.Get(ctx, s.scope, id)
	if errors.Is(err, record.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the description of image %s: %w", id, err)
	}
	return infoOf(item, value)
}

// List describes all images, those that were stored last first.
func (s *Images) List(ctx context.Context) ([]Info, error) {
	for range maxReads {
		all, err := s.list(ctx)
		if !errors.Is(err, record.ErrNotFound) {
			return all, err
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return nil, fmt.Errorf("listing the images: they were changed %d times meanwhile", maxReads)
}

// list is one attempt to describe all images.
func (s *Images) list(ctx context.Context) ([]Info, error) {
	x, err := s.store.List(ctx, s.scope)
	if err != nil {
		return nil, fmt.Errorf("listing the images: %w", err)
	}
	all := []Info{}
	for _, item := range x.Items {
		if item.Kind != kindImage {
			continue
		}
		info, err := s.info(ctx, item)
		if err != nil {
			return nil, err
		}
		all = append(all, *info)
	}
	slices.SortFunc(all, func(a, b Info) int {
		return cmp.Or(b.Created.Compare(a.Created), strings.Compare(a.ID, b.ID))
	})
	return all, nil
}

// change carries out a change.
func (s *Images) change(ctx context.Context, cause record.Cause, into any, decide record.DecideWith) error {
	return record.Explain(record.Change(ctx, s.store, s.scope, cause, into, decide), full,
		"The stores of the namespace are full together. Delete images, files or values, or ask for sessions to be deleted.")
}

// deleted is the result of a deletion.
type deleted struct {
	Existed bool `json:"existed"`
}

// Delete deletes an image, and reports whether it existed. A note stands in its place in later prompts.
func (s *Images) Delete(ctx context.Context, cause record.Cause, id string) (bool, error) {
	result := &deleted{}
	err := s.change(ctx, cause, result, func(_ context.Context, x *record.Index) (*record.Operation, any, error) {
		o := &record.Operation{}
		for _, item := range x.Items {
			if item.Key == id || strings.HasPrefix(item.Key, id+"/") {
				o.Delete = append(o.Delete, item.Key)
			}
		}
		if len(o.Delete) == 0 {
			return nil, deleted{}, nil
		}
		return o, deleted{Existed: true}, nil
	})
	return result.Existed, err
}

// Resolved is an image as a model's provider takes it (IMG-02).
type Resolved struct {
	// Base64 has no prefix.
	Base64 string
	// MediaType is one of MediaTypes.
	MediaType string
}

// Resolve returns an image for a model's provider; nil if it does not exist.
func (s *Images) Resolve(ctx context.Context, id string) (*Resolved, error) {
	info, content, err := s.Get(ctx, id)
	if err != nil || info == nil {
		return nil, err
	}
	return &Resolved{Base64: base64.StdEncoding.EncodeToString(content), MediaType: info.ContentType}, nil
}

// info reads the description of an image.
func (s *Images) info(ctx context.Context, item record.Item) (*Info, error) {
	value, err := s.store.Load(ctx, s.scope, item)
	if err != nil {
		return nil, fmt.Errorf("reading the description of image %s: %w", item.Key, err)
	}
	return infoOf(item, value)
}

func infoOf(item record.Item, value []byte) (*Info, error) {
	d, err := decode(item, value)
	if err != nil {
		return nil, err
	}
	return &Info{
		ID: item.Key, Filename: d.Filename, ContentType: item.Encoding, Size: d.Size, Metadata: d.Metadata,
		Created: item.Created.UTC(),
	}, nil
}

func decode(item record.Item, value []byte) (description, error) {
	var d description
	if err := json.Unmarshal(value, &d); err != nil {
		return d, fmt.Errorf("reading the description of image %s: %w", item.Key, err)
	}
	return d, nil
}

// Keep stores several images in one operation, as far as they can be stored and there is room, and returns those of
// them that the store has then, with those of the named ones that it has. It is for images that users and tools have
// sent for another purpose.
func (s *Images) Keep(ctx context.Context, drafts []Draft, named []string) (map[string]Info, error) {
	var valid []Draft
	for _, d := range drafts {
		if d.check() == nil {
			valid = append(valid, d)
		}
	}
	known := map[string]Info{}
	_, err := s.store.Update(ctx, s.scope, record.Cause{},
		func(ctx context.Context, x *record.Index) (*record.Operation, error) {
			clear(known)
			return s.keep(ctx, x, valid, named, known)
		})
	if errors.Is(err, record.ErrFull) {
		// All stores of the namespace are full together: those that are there count.
		for _, d := range valid {
			named = append(named, IDOf(d.Bytes))
		}
		return s.Describe(ctx, named)
	}
	if err != nil {
		return nil, fmt.Errorf("storing images: %w", err)
	}
	return known, nil
}

// keep returns the operation that stores the images for which there is room; nil for none.
func (s *Images) keep(
	ctx context.Context, x *record.Index, drafts []Draft, named []string, known map[string]Info,
) (*record.Operation, error) {
	for _, id := range named {
		if err := s.find(ctx, x, id, known); err != nil {
			return nil, err
		}
	}
	o := &record.Operation{}
	count, size := tally(x)
	for _, d := range drafts {
		id := IDOf(d.Bytes)
		if err := s.find(ctx, x, id, known); err != nil {
			return nil, err
		}
		if _, found := known[id]; found {
			continue
		}
		puts, err := d.puts(id)
		if err != nil {
			return nil, err
		}
		if count >= MaxImages || size+int64(len(d.Bytes)) > MaxBytes {
			continue
		}
		count++
		size += int64(len(d.Bytes))
		o.Put = append(o.Put, puts...)
		known[id] = Info{ID: id, ContentType: d.ContentType, Size: int64(len(d.Bytes))}
	}
	if len(o.Put) == 0 {
		return nil, nil
	}
	return o, nil
}

// Describe describes those of several images that the store has, by id.
func (s *Images) Describe(ctx context.Context, named []string) (map[string]Info, error) {
	x, err := s.store.List(ctx, s.scope)
	if err != nil {
		return nil, fmt.Errorf("describing images: %w", err)
	}
	known := map[string]Info{}
	for _, id := range named {
		if err := s.find(ctx, x, id, known); err != nil {
			return nil, err
		}
	}
	return known, nil
}

// find adds an image if the store has it.
func (s *Images) find(ctx context.Context, x *record.Index, id string, known map[string]Info) error {
	item, found := x.Find(id)
	if !found || !IsID(id) {
		return nil
	}
	info, err := s.info(ctx, item)
	if err != nil {
		return err
	}
	known[id] = *info
	return nil
}
