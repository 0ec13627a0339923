package sessionimage_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/record/memory"
	"github.com/capstan-dev/capstan/internal/runtime/sessionimage"
	"github.com/capstan-dev/capstan/internal/runtime/sessionimage/imagetest"
)

func images() *sessionimage.Images {
	return sessionimage.Of(record.New(memory.New(), record.Options{}), record.Session{Namespace: "a", Name: "s", UID: "u"})
}

// Rules: IMG-01. What is not an image of its type, or is too large, is refused before it is stored.
func TestWhatIsNotAnImageIsRefused(t *testing.T) {
	png := imagetest.PNG(20, "x")
	for name, test := range map[string]struct {
		draft sessionimage.Draft
		want  string
	}{
		"no type":    {sessionimage.Draft{Bytes: png}, "not the type of an image"},
		"a document": {sessionimage.Draft{ContentType: "application/pdf", Bytes: []byte("%PDF-")}, "not the type of an"},
		"an SVG":     {sessionimage.Draft{ContentType: "image/svg+xml", Bytes: []byte("<svg/>")}, "not the type of an"},
		"no bytes":   {sessionimage.Draft{ContentType: "image/png"}, "no bytes"},
		"other type": {sessionimage.Draft{ContentType: "image/jpeg", Bytes: png}, "not an image of type image/jpeg"},
		"a script":   {sessionimage.Draft{ContentType: "image/png", Bytes: []byte("<script>")}, "not an image of type"},
		"too large": {
			sessionimage.Draft{ContentType: "image/png", Bytes: imagetest.PNG(sessionimage.MaxImageBytes+1, "x")},
			"at most 3932160 bytes",
		},
		"a path":           {sessionimage.Draft{ContentType: "image/png", Bytes: png, Filename: "../a"}, "filename"},
		"a Windows path":   {sessionimage.Draft{ContentType: "image/png", Bytes: png, Filename: `..\a`}, "filename"},
		"the directory":    {sessionimage.Draft{ContentType: "image/png", Bytes: png, Filename: ".."}, "filename"},
		"control sequence": {sessionimage.Draft{ContentType: "image/png", Bytes: png, Filename: "a\x1b[2J"}, "filename"},
		"a long filename": {
			sessionimage.Draft{ContentType: "image/png", Bytes: png, Filename: strings.Repeat("a", 256)}, "filename",
		},
		"many metadata": {
			sessionimage.Draft{ContentType: "image/png", Bytes: png, Metadata: metadata(sessionimage.MaxMetadata+1, "v")},
			"metadata",
		},
		"long metadata": {
			sessionimage.Draft{ContentType: "image/png", Bytes: png, Metadata: metadata(1, strings.Repeat("v", 129))},
			"metadata",
		},
	} {
		of := images()
		_, err := of.Create(t.Context(), record.Cause{}, test.draft)
		var explained *record.ExplainedError
		if !errors.As(err, &explained) || !strings.Contains(explained.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
		if all, err := of.List(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("%s: stored is %+v, %v", name, all, err)
		}
	}
}

func metadata(n int, value string) map[string]string {
	pairs := map[string]string{}
	for i := range n {
		pairs[fmt.Sprintf("key-%d", i)] = value
	}
	return pairs
}

// Rules: IMG-01. Each type that all providers accept is recognized by its first bytes.
func TestImagesOfEachTypeAreStored(t *testing.T) {
	for mediaType, content := range map[string]string{
		"image/png": "\x89PNG\r\n\x1a\n", "image/jpeg": "\xff\xd8\xff\xe0", "image/gif": "GIF89a",
		"image/webp": "RIFF\x1a\x00\x00\x00WEBPVP8L.",
	} {
		info, err := images().Create(t.Context(), record.Cause{}, sessionimage.Draft{
			ContentType: mediaType, Bytes: []byte(content),
		})
		if err != nil || info.ContentType != mediaType {
			t.Errorf("%s: %+v, %v", mediaType, info, err)
		}
		if found, err := sessionimage.TypeOf([]byte(content)); err != nil || found != mediaType {
			t.Errorf("%s is of type %s, %v", mediaType, found, err)
		}
	}
}

// Rules: IMG-01. Also with the largest descriptions, which do not fit into the index.
func TestTheNumberOfImagesIsBounded(t *testing.T) {
	if found, err := sessionimage.TypeOf([]byte("<svg/>")); err == nil {
		t.Errorf("an SVG is of type %s", found)
	}
	of := images()
	for n := range sessionimage.MaxImages + 1 {
		_, err := of.Create(t.Context(), record.Cause{}, sessionimage.Draft{
			ContentType: "image/png", Bytes: append(imagetest.PNG(16, "x"), fmt.Sprintf("%d", n)...),
			Filename: strings.Repeat("é", 127), Metadata: metadata(sessionimage.MaxMetadata, strings.Repeat("\x00", 128)),
		})
		if (err != nil) != (n == sessionimage.MaxImages) {
			t.Fatalf("image %d: %v", n, err)
		}
	}
	if all, err := of.List(t.Context()); err != nil || len(all) != sessionimage.MaxImages {
		t.Errorf("%d images, %v", len(all), err)
	}
}

// A call that is repeated after a crash may find another file than the first time.
//
// Rules: IMG-01.
func TestARepeatedCallHasTheFirstImage(t *testing.T) {
	of, cause := images(), record.Cause{Step: 1, Key: "turn/1-0"}
	var ids []string
	for _, text := range []string{"first", "second"} {
		info, err := of.Create(t.Context(), cause, sessionimage.Draft{
			ContentType: "image/png", Bytes: imagetest.PNG(40, text),
		})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, info.ID)
	}
	if first := sessionimage.IDOf(imagetest.PNG(40, "first")); ids[0] != first || ids[1] != first {
		t.Errorf("the calls have %v, and the first image is %s", ids, first)
	}
	if all, err := of.List(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("%d images, %v", len(all), err)
	}
}
