package config

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/sessionfs"
)

// Rules: CFG-04, FS-03.
func TestInitialFilesThatCannotBeThoseOfASession(t *testing.T) {
	many := func(count int, name string) []v1alpha1.InitialFile {
		var list []string
		for i := range count {
			list = append(list, fmt.Sprintf(name, i))
		}
		return files(list...)
	}
	binary := v1alpha1.InitialFile{Path: "/b", Content: "YQ", Encoding: v1alpha1.FileEncodingBase64}
	for name, test := range map[string]struct {
		layers []v1alpha1.ConfigLayer
		want   string
	}{
		"none":                     {},
		"files and directories":    {layers: []v1alpha1.ConfigLayer{{InitialFiles: files("/a/b", "/a/c", "/a-/b")}}},
		"as many as a Session has": {layers: []v1alpha1.ConfigLayer{{InitialFiles: many(1024, "/%d")}}},
		"too many": {
			[]v1alpha1.ConfigLayer{{InitialFiles: many(256, "/%d/a")}, {InitialFiles: many(257, "/%d/a")}},
			"1026 files and directories",
		},
		"a path that leads upwards": {[]v1alpha1.ConfigLayer{{InitialFiles: files("/a/../b")}}, `has the name ".."`},
		"a path that is too deep": {
			[]v1alpha1.ConfigLayer{{InitialFiles: files(strings.Repeat("/a", 33))}}, "33 names",
		},
		"a file below a file": {
			[]v1alpha1.ConfigLayer{{InitialFiles: files("/a/b/c", "/workspace/a")}}, "/a is a file",
		},
		"a file below a file of another layer": {
			layers: []v1alpha1.ConfigLayer{{InitialFiles: files("/a/b/c")}, {InitialFiles: files("/workspace/a")}},
		},
		"the same path in two spellings": {
			[]v1alpha1.ConfigLayer{{InitialFiles: files("/a", "/workspace//a/")}}, "/a is there twice.",
		},
		"the root": {[]v1alpha1.ConfigLayer{{InitialFiles: files("/workspace/workspace")}}, "root directory"},
		"a content that is not base64": {
			[]v1alpha1.ConfigLayer{{InitialFiles: []v1alpha1.InitialFile{binary}}}, "The content of /b is not valid base64.",
		},
	} {
		for _, cached := range []bool{false, true} {
			var layers []layered
			for i := range test.layers {
				layer := test.layers[i].DeepCopy()
				if cached {
					LeaveOutFiles(layer)
					LeaveOutFiles(layer)
				}
				layers = append(layers, layered{"session", *layer})
			}
			r := &Resolved{}
			if err := r.fold(t.Context(), namespaced{}, "ns", layers); err != nil {
				t.Fatal(err)
			}
			reason, message := r.Problem()
			wrong := reason == v1alpha1.ReasonInitialFilesInvalid
			if wrong != (test.want != "") || !strings.Contains(message, test.want) {
				t.Errorf("%s, cached %v: %s: %s", name, cached, reason, message)
			}
		}
	}
}

func TestContentsAreLeftOutOfACache(t *testing.T) {
	layer := v1alpha1.ConfigLayer{InitialFiles: append(files("/a="+strings.Repeat("x", 100_000), "/empty"),
		v1alpha1.InitialFile{Path: "/b", Content: "YQ==", Encoding: v1alpha1.FileEncodingBase64})}
	if FilesLeftOut(layer.InitialFiles) {
		t.Error("whole files are taken for marks")
	}
	LeaveOutFiles(&layer)
	if kept := fmt.Sprint(layer.InitialFiles); !FilesLeftOut(layer.InitialFiles) || len(kept) > 64 {
		t.Errorf("the cache keeps %s", kept)
	}
}

// Rules: FS-03, FS-04.
func TestTheFilesThatASessionGets(t *testing.T) {
	got := SeedOf([]v1alpha1.InitialFile{
		{Path: "/a", Content: "text"},
		{Path: "/b", Content: "YQ==", Encoding: v1alpha1.FileEncodingBase64, Access: v1alpha1.FileAccessReadOnly},
	})
	want := []sessionfs.Initial{
		{Path: "/a", Content: "text", Encoding: sessionfs.Text},
		{Path: "/b", Content: "YQ==", Encoding: sessionfs.Base64, ReadOnly: true},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the Session gets %+v, want %+v", got, want)
	}
}
