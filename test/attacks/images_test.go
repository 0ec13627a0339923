package attacks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/record/memory"
	"github.com/capstan-dev/capstan/internal/runtime/sessionfs"
	"github.com/capstan-dev/capstan/internal/runtime/sessionimage"
	"github.com/capstan-dev/capstan/internal/runtime/tool/builtin"
)

// imageID is the id of an image that no Session has.
const imageID = "img-0123456789abcdef0123456789abcdef"

// sessionImages are calls of the tools for images, with arguments that a model has written.
func sessionImages(t *testing.T) subject {
	store := record.New(memory.New(), record.Options{})
	of := func(namespace string) record.Session {
		return record.Session{Namespace: namespace, Name: "s", UID: types.UID("uid-" + namespace)}
	}
	var calls atomic.Int64
	call := func(ctx context.Context, namespace, name, arguments string) string {
		return builtinCall(ctx, t, "session_images", name, builtin.Call{
			Arguments: arguments, Cause: record.Cause{Step: calls.Add(1), Key: "turn/1-0"},
			Services: builtin.Services{
				Images: sessionimage.Of(store, of(namespace)), Files: sessionfs.New(store, of(namespace), nil),
			},
		})
	}
	secret := []byte("\x89PNG\r\n\x1a\n" + tokenSecret)
	id := sessionimage.IDOf(secret)
	if _, err := sessionimage.Of(store, of(bystander)).Create(t.Context(), record.Cause{}, sessionimage.Draft{
		ContentType: "image/png", Bytes: secret,
	}); err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{"/a.svg": "<svg/>", "/a.html": "<html>", "/empty.png": ""} {
		if _, err := sessionfs.New(store, of(attacker), nil).WriteBytes(
			t.Context(), record.Cause{}, path, []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	attempts := func(name string, all ...[2]string) class {
		c := class{name: name, refused: true}
		for _, a := range all {
			c.attempts = append(c.attempts, attempt{name: a[0] + " " + a[1], run: func(ctx context.Context) string {
				return call(ctx, attacker, a[0], a[1])
			}})
		}
		return c
	}
	view := func(field, value string) [2]string {
		raw, _ := json.Marshal(value)
		return [2]string{"view_image", fmt.Sprintf(`{%q:%s}`, field, raw)}
	}
	return subject{
		name: "Images of a Session",
		classes: []class{
			attempts("the images of another Session", view("id", id), view("id", "../"+id), view("id", id+"/0"),
				view("path", "/"+id), view("path", "../../uid-"+bystander+"/images/"+id)),
			attempts("files that are no images", view("path", "/a.svg"), view("path", "/a.html"), view("path", "/empty.png"),
				view("path", "/"), view("path", "/proc/self/environ")),
		},
		other: func(ctx context.Context) error {
			if seen := call(ctx, bystander, "view_image", `{"id":"`+id+`"}`); !strings.Contains(seen, "image_file") {
				return errors.New(seen)
			}
			return nil
		},
		after: func(t *testing.T) {
			if seen := call(t.Context(), attacker, "list_images", `{}`); !strings.Contains(seen, `"images":[]`) {
				t.Errorf("the attempts have left %s", seen)
			}
		},
	}
}
