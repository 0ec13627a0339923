// Package imagetest has the tests of images that pass on every backend of records.
package imagetest

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/record/recordtest"
	"github.com/capstan-dev/capstan/internal/runtime/sessionimage"
)

// signature begins every PNG.
const signature = "\x89PNG\r\n\x1a\n"

// PNG returns bytes of a length that begin as a PNG, and that no other fill has.
func PNG(size int, fill string) []byte {
	return append([]byte(signature), bytes.Repeat([]byte(fill), size/len(fill)+1)...)[:size]
}

// Run is the suite that every backend passes. newObjects is called once per test.
func Run(t *testing.T, newObjects func(t *testing.T) record.Objects) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, objects record.Objects)
	}{
		{"ImagesAreCreatedReadAndDeleted", created},
		{"ALargeImageIsKeptInParts", large},
		{"TheSameBytesAreStoredOnce", same},
		{"AChangeHappensOnceWhateverFails", once},
		{"ConcurrentImagesAreAllStored", concurrent},
		{"ASessionHasOnlyItsOwnImages", own},
		{"TheImagesOfASessionAreBounded", bounded},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, newObjects(t))
		})
	}
}

// session is a Session of its own.
func session() record.Session {
	id := uuid.NewString()
	return record.Session{Namespace: "default", Name: "s-" + id[:8], UID: types.UID(id)}
}

// over returns the images of a Session in a process of their own.
func over(objects record.Objects, of record.Session) *sessionimage.Images {
	return sessionimage.Of(record.New(objects, record.Options{}), of)
}

func create(t *testing.T, of *sessionimage.Images, d sessionimage.Draft) *sessionimage.Info {
	t.Helper()
	d.ContentType = "image/png"
	info, err := of.Create(t.Context(), record.Cause{}, d)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// expect checks the bytes of an image; nil for one that does not exist.
func expect(t *testing.T, of *sessionimage.Images, id string, want []byte) {
	t.Helper()
	info, content, err := of.Get(t.Context(), id)
	if err != nil || (info == nil) != (want == nil) || !bytes.Equal(content, want) {
		t.Errorf("image %s is %+v with %d bytes, %v; want %d bytes", id, info, len(content), err, len(want))
	}
	resolved, err := of.Resolve(t.Context(), id)
	if err != nil || (resolved == nil) != (want == nil) || resolved != nil &&
		(resolved.Base64 != base64.StdEncoding.EncodeToString(want) || resolved.MediaType != "image/png") {
		t.Errorf("image %s is resolved as %+.64v, %v", id, resolved, err)
	}
}

func created(t *testing.T, objects record.Objects) {
	of := over(objects, session())
	if all, err := of.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("a new Session has the images %+v, %v", all, err)
	}
	content := PNG(200, "a")
	info := create(t, of, sessionimage.Draft{
		Filename: "ship.png", Bytes: content, Metadata: map[string]string{"source": "harbour"},
	})
	if info.ID != sessionimage.IDOf(content) || info.Filename != "ship.png" || info.ContentType != "image/png" ||
		info.Size != 200 || info.Metadata["source"] != "harbour" || info.Created.IsZero() {
		t.Errorf("the image is %+v", info)
	}
	second := create(t, of, sessionimage.Draft{Bytes: PNG(100, "b")})
	expect(t, of, info.ID, content)
	if stat, err := of.Stat(t.Context(), info.ID); err != nil || stat == nil || stat.Size != 200 {
		t.Errorf("the description is %+v, %v", stat, err)
	}
	if all, err := of.List(t.Context()); err != nil || len(all) != 2 {
		t.Errorf("the images are %+v, %v", all, err)
	}
	for _, want := range []bool{true, false} {
		if existed, err := of.Delete(t.Context(), record.Cause{}, info.ID); existed != want || err != nil {
			t.Errorf("deleting returns %v, %v; want %v", existed, err, want)
		}
	}
	expect(t, of, info.ID, nil)
	expect(t, of, second.ID, PNG(100, "b"))
	for _, id := range []string{"", "img-0", "../" + info.ID, info.ID + "/0", strings.ToUpper(second.ID)} {
		expect(t, of, id, nil)
		if stat, err := of.Stat(t.Context(), id); stat != nil || err != nil {
			t.Errorf("the description of %q is %+v, %v", id, stat, err)
		}
	}
}

func large(t *testing.T, objects record.Objects) {
	of := over(objects, session())
	content := PNG(sessionimage.MaxImageBytes, "abcdefghijklmno")
	info := create(t, of, sessionimage.Draft{Bytes: content})
	expect(t, of, info.ID, content)
	if existed, err := of.Delete(t.Context(), record.Cause{}, info.ID); !existed || err != nil {
		t.Errorf("deleting returns %v, %v", existed, err)
	}
	expect(t, of, info.ID, nil)
}

// counting counts the blobs that are created.
type counting struct {
	record.Objects
	mu    sync.Mutex
	blobs int
}

// CreateBlob implements record.Objects.
func (c *counting) CreateBlob(ctx context.Context, scope record.Scope, name string, payload []byte) error {
	c.mu.Lock()
	c.blobs++
	c.mu.Unlock()
	return c.Objects.CreateBlob(ctx, scope, name, payload)
}

func same(t *testing.T, objects record.Objects) {
	counted := &counting{Objects: objects}
	of := over(counted, session())
	content := PNG(600<<10, "xyz")
	first := create(t, of, sessionimage.Draft{Bytes: content})
	written := counted.blobs
	if written != 2 {
		t.Errorf("the image was written as %d blobs, want 2", written)
	}
	again := create(t, of, sessionimage.Draft{Bytes: content})
	named := create(t, of, sessionimage.Draft{Bytes: content, Filename: "a.png"})
	kept := create(t, of, sessionimage.Draft{Bytes: content, Metadata: map[string]string{"k": "v"}})
	if again.ID != first.ID || named.ID != first.ID || named.Filename != "a.png" || !kept.Created.Equal(first.Created) ||
		kept.Filename != "a.png" || kept.Metadata["k"] != "v" || counted.blobs != written {
		t.Errorf("the same image is %+v, then %+v, then %+v, with %d blobs", again, named, kept, counted.blobs)
	}
	if all, err := of.List(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("the images are %+v, %v", all, err)
	}
}

func once(t *testing.T, objects record.Objects) {
	for fault := range 2 { // creating and deleting are one write each
		of := session()
		for range 2 { // the process, and the one that takes its place
			images := over(recordtest.Lossy(objects, fault+1), of)
			info, err := images.Create(t.Context(), record.Cause{Step: 1, Key: "turn/1-0"}, sessionimage.Draft{
				ContentType: "image/png", Bytes: PNG(50, "c"),
			})
			if err != nil {
				t.Fatal(err)
			}
			existed, err := images.Delete(t.Context(), record.Cause{Step: 1, Key: "turn/1-1"}, info.ID)
			if err != nil || !existed {
				t.Fatalf("deleting returns %v, %v", existed, err)
			}
		}
		if all, err := over(objects, of).List(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("there are %+v, %v", all, err)
		}
	}
}

func concurrent(t *testing.T, objects record.Objects) {
	of := over(objects, session())
	const writers = 8
	var all sync.WaitGroup
	for n := range writers {
		all.Go(func() {
			_, err := of.Create(t.Context(), record.Cause{}, sessionimage.Draft{
				ContentType: "image/png", Bytes: PNG(5000, string(rune('a'+n))),
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if found, err := of.List(t.Context()); err != nil || len(found) != writers {
		t.Errorf("there are %d images, %v", len(found), err)
	}
}

func own(t *testing.T, objects record.Objects) {
	mine, other := over(objects, session()), over(objects, session())
	info := create(t, mine, sessionimage.Draft{Bytes: PNG(5000, "secret")})
	expect(t, other, info.ID, nil)
	if existed, err := other.Delete(t.Context(), record.Cause{}, info.ID); existed || err != nil {
		t.Errorf("deleting the image of another Session returns %v, %v", existed, err)
	}
	expect(t, mine, info.ID, PNG(5000, "secret"))
}

func bounded(t *testing.T, objects record.Objects) {
	of := over(objects, session())
	var first string
	for _, fill := range []string{"a", "b", "c"} {
		first = create(t, of, sessionimage.Draft{Bytes: PNG(sessionimage.MaxImageBytes, fill)}).ID
	}
	draft := sessionimage.Draft{ContentType: "image/png", Bytes: PNG(sessionimage.MaxImageBytes, "d")}
	_, err := of.Create(t.Context(), record.Cause{}, draft)
	var explained *record.ExplainedError
	if !errors.As(err, &explained) || !strings.Contains(explained.Error(), "full") {
		t.Errorf("a fourth image of the maximum size: %v", err)
	}
	if existed, err := of.Delete(t.Context(), record.Cause{}, first); !existed || err != nil {
		t.Fatalf("deleting returns %v, %v", existed, err)
	}
	create(t, of, draft)
}
