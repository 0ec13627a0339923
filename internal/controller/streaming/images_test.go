package streaming

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/sessionimage"
	"github.com/capstan-dev/capstan/internal/runtime/sessionimage/imagetest"
)

// Rules: IMG-01.
func TestTheImagesOfASession(t *testing.T) {
	b := newBench(t, many(), nil).lead()
	b.api.rights = everything
	of := func(uid types.UID) *sessionimage.Images {
		return sessionimage.Of(b.records, record.Session{Namespace: "ns", Name: "s", UID: uid})
	}
	foreign, err := of("another").Create(t.Context(), record.Cause{}, sessionimage.Draft{
		ContentType: "image/png", Bytes: imagetest.PNG(100, "foreign"),
	})
	if err != nil {
		t.Fatal(err)
	}
	list := func() []stream.Image {
		t.Helper()
		var list stream.ImageList
		if err := json.Unmarshal([]byte(b.want(http.StatusOK, http.MethodGet, base+"images", "")), &list); err != nil {
			t.Fatal(err)
		}
		return list.Items
	}
	if all := list(); len(all) != 0 {
		t.Errorf("a new Session has %+v", all)
	}
	content := string(imagetest.PNG(sessionimage.MaxImageBytes, "abc"))
	var image stream.Image
	raw := b.want(http.StatusOK, http.MethodPost, base+"images?filename=ship.png&metadata=source%3Da%3Db", content)
	if err := json.Unmarshal([]byte(raw), &image); err != nil {
		t.Fatal(err)
	}
	if image.ID != sessionimage.IDOf([]byte(content)) || image.Filename != "ship.png" ||
		image.ContentType != "image/png" || image.Size != stream.MaxImageBytes || image.Metadata["source"] != "a=b" ||
		image.CreatedAt.IsZero() {
		t.Errorf("stored is %+v", image)
	}
	if all := list(); len(all) != 1 || all[0].ID != image.ID {
		t.Errorf("the images are %+v", all)
	}
	if got := b.want(http.StatusOK, http.MethodGet, base+"images/"+image.ID, ""); got != content {
		t.Errorf("the image has %d bytes", len(got))
	}
	for _, refused := range []struct {
		code              int
		query, body, text string
	}{
		{http.StatusRequestEntityTooLarge, "", content + "a", "at most 3932160 bytes"},
		{http.StatusUnprocessableEntity, "", "<script>", "not an image"},
		{http.StatusUnprocessableEntity, "", "", "not an image"},
		{http.StatusUnprocessableEntity, "?filename=..%2Fa", content[:100], "filename"},
		{http.StatusUnprocessableEntity, "?metadata=a", content[:100], "KEY=VALUE"},
		{http.StatusUnprocessableEntity, "?metadata=a=b&metadata=a=c", content[:100], "set twice"},
		{
			http.StatusUnprocessableEntity,
			"?metadata=a=&metadata=b=&metadata=c=&metadata=d=&metadata=e=&metadata=f=&metadata=g=&metadata=h=&metadata=i=",
			content[:100], "at most 8 pairs",
		},
	} {
		if got := b.want(refused.code, http.MethodPost, base+"images"+refused.query, refused.body); !strings.Contains(
			got, refused.text) {
			t.Errorf("%s is refused with %s", refused.query, got)
		}
	}
	b.want(http.StatusNoContent, http.MethodDelete, base+"images/"+image.ID, "")
	for _, missing := range []string{image.ID, foreign.ID, "img-0", "a%2Fb"} {
		b.want(http.StatusNotFound, http.MethodGet, base+"images/"+missing, "")
		b.want(http.StatusNotFound, http.MethodDelete, base+"images/"+missing, "")
	}
	b.want(http.StatusBadRequest, http.MethodGet, base+"images", "a body")
	if kept, err := of("another").Stat(t.Context(), foreign.ID); err != nil || kept == nil {
		t.Errorf("the image of another Session is %+v, %v", kept, err)
	}
	if all := list(); len(all) != 0 {
		t.Errorf("what was refused is stored: %+v", all)
	}
}
