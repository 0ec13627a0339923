package builtin

import (
	"fmt"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/record/memory"
	"github.com/capstan-dev/capstan/internal/runtime/sessionfs"
	"github.com/capstan-dev/capstan/internal/runtime/sessionimage"
	"github.com/capstan-dev/capstan/internal/runtime/sessionimage/imagetest"
)

// Rules: IMG-01, CTX-01.
func TestTheToolsForImages(t *testing.T) {
	store := record.New(memory.New(), record.Options{})
	of := record.Session{Namespace: "default", Name: "demo", UID: "1"}
	services := Services{Images: sessionimage.Of(store, of), Files: sessionfs.New(store, of, nil)}
	first := record.Cause{Step: 1, Key: "turn/1-0"}
	plot, text := imagetest.PNG(300, "plot"), "GIF89a in ASCII"
	for path, content := range map[string][]byte{"/out/plot.png": plot, "/a.gif": []byte(text), "/b.txt": []byte("b")} {
		if _, err := services.Files.(*sessionfs.FS).WriteBytes(t.Context(), record.Cause{}, path, content); err != nil {
			t.Fatal(err)
		}
	}
	id, gif := sessionimage.IDOf(plot), sessionimage.IDOf([]byte(text))
	shown := func(id, about string) string {
		return fmt.Sprintf(`[{"type":"text","text":"%s, %s bytes"},{"type":"image_file","image_id":"%[1]s"}]`, id, about)
	}
	for n, test := range []struct{ tool, arguments, want string }{
		{"list_images", `{}`, `{"images":[]}`},
		{"view_image", `{}`, `! Set exactly one of id and path.`},
		{"view_image", `{"id": "` + id + `", "path": "/out/plot.png"}`, `! Set exactly one of id and path.`},
		{"view_image", `{"id": "` + id + `"}`, `! This session has no image ` + id + `.`},
		{"view_image", `{"path": "/out/plot.png"}`, shown(id, "image/png of 300")},
		{"view_image", `{"id": "` + id + `"}`, shown(id, "image/png of 300")},
		{"view_image", `{"path": "/a.gif"}`, shown(gif, "image/gif of 15")},
		{"view_image", `{"path": "/b.txt"}`, `! The bytes are not an image. The types are image/png, image/jpeg, ` +
			`image/gif, image/webp.`},
		{"view_image", `{"path": "/out"}`, `! /out is a directory.`},
		{"view_image", `{"path": "/none"}`, `! /none does not exist.`},
		{"delete_image", `{"id": "` + gif + `"}`, `{"existed":true}`},
		{"delete_image", `{"id": "` + gif + `"}`, `{"existed":false}`},
	} {
		cause := record.Cause{Step: int64(n + 2), Key: "turn/1-0"}
		outcome := call(t, services, cause, "session_images", test.tool, test.arguments)
		got := "! " + outcome.Error
		if outcome.Result != nil {
			got = *outcome.Result
		}
		if got != test.want {
			t.Errorf("%s %s returns %s, want %s", test.tool, test.arguments, got, test.want)
		}
	}
	listed := *call(t, services, first, "session_images", "list_images", `{}`).Result
	if !strings.HasPrefix(listed, `{"images":[{"id":"`+id+`","filename":"plot.png","content_type":"image/png",`+
		`"size_bytes":300,"created_at":"20`) || strings.Count(listed, `"id"`) != 1 {
		t.Errorf("listed is %s", listed)
	}
	services.Files = nil
	if outcome := call(t, services, first, "session_images", "view_image", `{"path": "/a"}`); outcome.Error !=
		"This session has no files." {
		t.Errorf("without files: %+v", outcome)
	}
}
