package sessionfs

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/record/memory"
	"github.com/capstan-dev/capstan/internal/runtime/record/recordtest"
)

// Rules: CFG-04, FS-04, VEC-18.
func TestPathsAreCleaned(t *testing.T) {
	for path, want := range map[string]string{
		"/": "/", "": "/", "//": "/", "/a": "/a", "a/b": "/a/b", "/a/": "/a", "/a//b": "/a/b", "/workspace": "/",
		"/workspace/": "/", "/workspace/x": "/x", "/workspace//x": "/x", "//workspace/x": "/x",
		"/workspace/workspace": "/", "/workspace//workspace/x": "/x", "/workspace/workspaces": "/workspaces",
		"/workspaces/x": "/workspaces/x", "/a/workspace": "/a/workspace", "/a..b/...": "/a..b/...",
		"/Grüße/日本 語.txt": "/Grüße/日本 語.txt", "/a\\..\\b": "/a\\..\\b", "/%2e%2e": "/%2e%2e",
	} {
		if got, err := Clean(path); err != nil || got != want {
			t.Errorf("%q is cleaned to %q, %v, want %q", path, got, err, want)
		}
	}
	for _, path := range []string{
		"..", "/..", "/a/../b", "/a/..", "/workspace/..", "/workspace/../etc/passwd", "/./a", "/a\x00b", "/a\nb",
		"/a\x1b[31m", "/\xff", "/a\u202eb", "/\u200b", "/" + strings.Repeat("a", 256), strings.Repeat("/a", 33),
		strings.Repeat("/"+strings.Repeat("a", 200), 3),
	} {
		if got, err := Clean(path); err == nil || !told(err) {
			t.Errorf("%.80q is cleaned to %.80q, %v", path, got, err)
		}
	}
}

func FuzzAPathStaysInside(f *testing.F) {
	for _, path := range []string{"/a/b", "/workspace/../a", "//workspace//workspace", "a", "/\u2028", "/.\x00."} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		clean, err := Clean(path)
		if err != nil {
			return
		}
		again, err := Clean(clean)
		if err != nil || again != clean {
			t.Fatalf("%q is cleaned to %q, and that to %q, %v", path, clean, again, err)
		}
		if !strings.HasPrefix(clean, "/") || len(clean) > record.MaxKeyBytes ||
			clean != root && strings.HasSuffix(clean, "/") {
			t.Fatalf("%q is cleaned to %q", path, clean)
		}
		for name := range strings.SplitSeq(clean, "/") {
			if name == ".." || name == "." {
				t.Fatalf("%q is cleaned to %q", path, clean)
			}
		}
	})
}

// Rules: FS-01, FS-05, FS-07.
func TestFilesAreWrittenWithTheDirectoriesAboveThem(t *testing.T) {
	s, ctx := newSite(t), t.Context()
	s.write("/src/main/a.txt", "/b.txt")
	if got := s.paths(); !slices.Equal(got, []string{"/b.txt", "/src", "/src/main", "/src/main/a.txt"}) {
		t.Fatalf("the paths are %v", got)
	}
	file, err := s.Read(ctx, "/workspace/src/main/a.txt/")
	if err != nil || file.Content != "content of /src/main/a.txt" || file.Path != "/src/main/a.txt" ||
		file.Name != "a.txt" || file.Encoding != Text || file.IsDirectory || file.IsReadOnly || file.Size != 26 ||
		file.Created.IsZero() || file.Updated.Before(*file.Created) {
		t.Fatalf("the file is %+v, %v", file, err)
	}
	for path, want := range map[string][]string{
		"/": {"/b.txt", "/src"}, "/src": {"/src/main"}, "/src/main": {"/src/main/a.txt"}, "/missing": nil, "/b.txt": nil,
	} {
		list, err := s.List(ctx, path)
		var got []string
		for _, info := range list {
			got = append(got, info.Path)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s has %v, %v, want %v", path, got, err, want)
		}
	}
	for path, directory := range map[string]bool{"/": true, "/src": true, "/src/main": true, "/b.txt": false} {
		if info, err := s.Stat(ctx, path); err != nil || info == nil || info.IsDirectory != directory {
			t.Errorf("%s is %+v, %v", path, info, err)
		}
		if file, err := s.Read(ctx, path); err != nil || file == nil || file.IsDirectory != directory ||
			directory && file.Content != "" {
			t.Errorf("%s is read as %+v, %v", path, file, err)
		}
	}
	if info, err := s.Stat(ctx, "/missing"); info != nil || err != nil {
		t.Errorf("a missing file is %+v, %v", info, err)
	}
	if file, err := s.Read(ctx, "/missing"); file != nil || err != nil {
		t.Errorf("a missing file is read as %+v, %v", file, err)
	}
	for _, path := range []string{"/", "/src", "/b.txt/c"} {
		if _, err := s.Write(ctx, s.cause(), path, "x", Text); !told(err) {
			t.Errorf("writing %s: %v", path, err)
		}
	}
	for path, created := range map[string]bool{"/src": false, "/": false, "/new/dir": true} {
		if made, err := s.Mkdir(ctx, s.cause(), path); err != nil || made.Created != created {
			t.Errorf("creating %s: %+v, %v", path, made, err)
		}
	}
	if _, err := s.Mkdir(ctx, s.cause(), "/b.txt"); !told(err) {
		t.Errorf("creating a directory over a file: %v", err)
	}
}

// Rules: FS-04, FS-07.
func TestEncodingsAreKept(t *testing.T) {
	s, ctx := newSite(t), t.Context()
	binary := base64.StdEncoding.EncodeToString([]byte{0, 255, 1, 254, 10})
	for content, encoding := range map[string]Encoding{binary: Base64, "aGVsbG8=": Base64, "héllo\x00": Text, "": Text} {
		if _, err := s.Write(ctx, s.cause(), "/f", content, encoding); err != nil {
			t.Fatal(err)
		}
		if file, err := s.Read(ctx, "/f"); err != nil || file.Content != content || file.Encoding != encoding {
			t.Errorf("%q in %s is read as %+v, %v", content, encoding, file, err)
		}
	}
	for content, encoding := range map[string]Encoding{
		"%": Base64, "aGVsbG8": Base64, "\xff": Text, "x": "utf-16", strings.Repeat("a", record.MaxValueBytes+1): Text,
		strings.Repeat("aaaa", record.MaxValueBytes): Base64,
	} {
		if _, err := s.Write(ctx, s.cause(), "/g", content, encoding); !told(err) {
			t.Errorf("%.10q in %s: %v", content, encoding, err)
		}
	}
	for content, text := range map[string]bool{
		"": true, "a\n": true, "a\x00b": false, "\xff": false, strings.Repeat("a", 8<<10) + "\x00": true,
	} {
		if IsText([]byte(content)) != text {
			t.Errorf("%.10q is text: %v", content, !text)
		}
	}
}

// Rules: FS-02, VEC-19.
func TestAConditionalWriteReplacesWhatItExpects(t *testing.T) {
	s, ctx := newSite(t, Initial{Path: "/locked", Content: "a", ReadOnly: true}), t.Context()
	s.write("/dir/a")
	for path, content := range map[string]string{"/empty": "", "/same": "aGVsbG8="} {
		if _, err := s.Write(ctx, s.cause(), path, content, Text); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		path, expected string
		encoding       Encoding
		conflict       bool
	}{
		"as expected":      {"/dir/a", "content of /dir/a", Text, false},
		"another content":  {"/dir/a", "other", Text, true},
		"another encoding": {"/dir/a", base64.StdEncoding.EncodeToString([]byte("content of /dir/a")), Base64, true},
		"encoding alone":   {"/same", "aGVsbG8=", Base64, true},
		"a missing file":   {"/missing", "", Text, true},
		"a directory":      {"/dir", "", Text, true},
		"an empty file":    {"/empty", "", Text, false},
	} {
		written, err := s.WriteIf(ctx, s.cause(), test.path, test.expected, test.encoding, "new", Text)
		if err != nil || (written == nil) != test.conflict {
			t.Errorf("%s: %+v, %v", name, written, err)
		}
		if name == "as expected" {
			if _, err := s.Write(ctx, s.cause(), "/dir/a", "content of /dir/a", Text); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := s.WriteIf(ctx, s.cause(), "/locked", "a", Text, "b", Text); !told(err) {
		t.Errorf("replacing a read-only file: %v", err)
	}
	var won atomic.Int64
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			cause := record.Cause{Step: 1, Key: fmt.Sprintf("race %d", i)}
			written, err := s.WriteIf(ctx, cause, "/dir/a", "content of /dir/a", Text, fmt.Sprint(i), Text)
			if err != nil {
				t.Error(err)
			}
			if written != nil {
				won.Add(1)
			}
		})
	}
	group.Wait()
	if won.Load() != 1 {
		t.Errorf("%d of 8 writes found the content that they expected", won.Load())
	}
}

// Rules: FS-05.
func TestWhatIsDeleted(t *testing.T) {
	s, ctx := newSite(t, Initial{Path: "/keep/locked", ReadOnly: true}), t.Context()
	s.write("/a/b/c", "/a/d", "/ab", "/keep/open")
	for _, test := range []struct {
		path               string
		recursive, deleted bool
	}{
		{"/missing", true, false},
		{"/a", false, false},
		{"/a/b/c", false, true},
		{"/a/b", false, true},
		{"/a", true, true},
		{"/a", true, false},
		{"/keep/open", false, true},
	} {
		if deleted, err := s.Delete(ctx, s.cause(), test.path, test.recursive); err != nil || deleted != test.deleted {
			t.Errorf("deleting %s: %v, %v", test.path, deleted, err)
		}
	}
	for _, path := range []string{"/", "/workspace", "/keep", "/keep/locked"} {
		if _, err := s.Delete(ctx, s.cause(), path, true); !told(err) {
			t.Errorf("deleting %s: %v", path, err)
		}
	}
	if _, err := s.Write(ctx, s.cause(), "/keep/locked", "x", Text); !told(err) {
		t.Errorf("writing a read-only file: %v", err)
	}
	if _, err := s.Edit(ctx, s.cause(), "/keep/locked", "a", "b", true); !told(err) {
		t.Errorf("editing a read-only file: %v", err)
	}
	if got := s.paths(); !slices.Equal(got, []string{"/ab", "/keep", "/keep/locked"}) {
		t.Errorf("what is left is %v", got)
	}
}

func TestAnEditReplacesOnePlace(t *testing.T) {
	s, ctx := newSite(t), t.Context()
	for _, test := range []struct {
		content, before, after string
		everywhere             bool
		want                   string
	}{
		{"a b a", "b", "c", false, "a c a"},
		{"a b a", "a", "c", true, "c b c"},
		{"a b a", "a", "c", false, ""},
		{"a b a", "x", "c", true, ""},
		{"a b a", "", "c", true, ""},
		{"a b a", "b", "b", true, ""},
		{"a b a", "\xff", "b", true, ""},
		{strings.Repeat("a", 100_000), "a", strings.Repeat("b", 90_000), true, ""},
	} {
		if _, err := s.Write(ctx, s.cause(), "/f", test.content, Text); err != nil {
			t.Fatal(err)
		}
		_, err := s.Edit(ctx, s.cause(), "/f", test.before, test.after, test.everywhere)
		if test.want == "" {
			if test.want = test.content; !told(err) {
				t.Errorf("replacing %.10q in %.10q: %v", test.before, test.content, err)
			}
		} else if err != nil {
			t.Errorf("replacing %.10q in %.10q: %v", test.before, test.content, err)
		}
		if got := s.content("/f"); got != test.want {
			t.Errorf("replacing %.10q in %.10q gives %.20q", test.before, test.content, got)
		}
	}
	if _, err := s.Write(ctx, s.cause(), "/binary", "AAEC", Base64); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/binary", "/missing", "/"} {
		if _, err := s.Edit(ctx, s.cause(), path, "a", "b", true); !told(err) {
			t.Errorf("editing %s: %v", path, err)
		}
	}
}

// A change is repeated when its result is lost, with the process that made it.
func TestARepeatedChangeReturnsTheFirstResult(t *testing.T) {
	s, ctx := newSite(t), t.Context()
	cause := s.cause()
	first, err := s.Write(ctx, cause, "/a", "one", Text)
	if err != nil || !first.Created {
		t.Fatalf("the first write: %+v, %v", first, err)
	}
	edit := s.cause()
	if _, err := s.Edit(ctx, edit, "/a", "one", "two", false); err != nil {
		t.Fatal(err)
	}
	if again, err := s.Write(ctx, cause, "/a", "one", Text); err != nil || !again.Created {
		t.Errorf("the repeated write: %+v, %v", again, err)
	}
	if again, err := s.Edit(ctx, edit, "/a", "one", "two", false); err != nil || again.Replaced != 1 {
		t.Errorf("the repeated edit: %+v, %v", again, err)
	}
	if got := s.content("/a"); got != "two" {
		t.Errorf("the content is %q", got)
	}
	gone := s.cause()
	for range 2 {
		if deleted, err := s.Delete(ctx, gone, "/a", false); err != nil || !deleted {
			t.Errorf("deleting: %v, %v", deleted, err)
		}
	}
}

// Rules: FS-03, VEC-20.
func TestInitialFilesAreWrittenOnce(t *testing.T) {
	s, ctx := newSite(t,
		Initial{Path: "/workspace/notes.txt", Content: "begin", Encoding: Text},
		Initial{Path: "/lib/data.bin", Content: "AAEC", Encoding: Base64, ReadOnly: true},
	), t.Context()
	info, err := s.Stat(ctx, "/lib/data.bin")
	if err != nil || info == nil || !info.IsReadOnly || info.Encoding != Base64 || info.Size != 3 {
		t.Fatalf("the read-only file is %+v, %v", info, err)
	}
	if got := s.content("/notes.txt"); got != "begin" {
		t.Fatalf("the content is %q", got)
	}
	if n := s.objects.Calls(recordtest.WriteIndex); n != 1 {
		t.Fatalf("the initial files take %d writes", n)
	}
	if _, err := s.Delete(ctx, s.cause(), "/notes.txt", false); err != nil {
		t.Fatal(err)
	}
	if got := s.paths(); !slices.Equal(got, []string{"/lib", "/lib/data.bin"}) {
		t.Fatalf("a file that was deleted is written again: %v", got)
	}
	if s.asked != 1 {
		t.Fatalf("the initial files are read %d times", s.asked)
	}
	// The first use may be a write, and two may be the first at once.
	s = newSite(t, Initial{Path: "/a", Content: "a"})
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			if _, err := s.Write(ctx, record.Cause{Step: 1, Key: fmt.Sprint(i)}, fmt.Sprintf("/%d", i), "x", Text); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got := s.paths(); len(got) != 9 || s.content("/a") != "a" {
		t.Fatalf("the paths are %v", got)
	}
	// Files that a layer gets later do not come into a filesystem that is in use.
	s = newSite(t)
	s.write("/b")
	later := New(
		s.store,
		Session{Namespace: "default", Name: "demo", UID: "demo-uid"},
		newSite(t, Initial{Path: "/a"}).initial,
	)
	if file, err := later.Read(ctx, "/a"); file != nil || err != nil {
		t.Fatalf("an initial file came later: %+v, %v", file, err)
	}
	for name, initial := range map[string][]Initial{
		"above":    {{Path: "/../a"}},
		"the root": {{Path: "/workspace"}},
		"below":    {{Path: "/a"}, {Path: "/a/b"}},
		"over":     {{Path: "/a/b"}, {Path: "/a"}},
		"encoding": {{Path: "/a", Content: "%", Encoding: Base64}},
	} {
		if _, err := newSite(t, initial...).Read(ctx, "/a"); !told(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Rules: FS-01, FS-05.
func TestWhatIsFound(t *testing.T) {
	s, ctx := newSite(t), t.Context()
	s.write("/src/a.txt", "/src/b.txt", "/docs/a.txt")
	for path, content := range map[string]string{
		"/src/many": strings.Repeat("needle\r\n", 1_000), "/src/long": "needle " + strings.Repeat("ü", 1_000),
	} {
		if _, err := s.Write(ctx, s.cause(), path, content, Text); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Write(ctx, s.cause(), "/src/binary", base64.StdEncoding.EncodeToString([]byte("\x00content")),
		Base64); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		pattern, path string
		want          []string
	}{
		{"content", "", []string{"/docs/a.txt", "/src/a.txt", "/src/b.txt"}},
		{"^content of .*a", "src", []string{"/src/a.txt"}},
		{"(?i)CONTENT", "/a.txt", []string{"/docs/a.txt", "/src/a.txt"}},
		{"content", "*.txt", nil},
		{`\Qnothing`, "", nil},
	} {
		found, err := s.Grep(ctx, test.pattern, test.path)
		if err != nil || found.Incomplete {
			t.Errorf("%s in %q: %v", test.pattern, test.path, err)
			continue
		}
		var got []string
		for _, match := range found.Matches {
			got = append(got, match.Path)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s in %q is found in %v", test.pattern, test.path, got)
		}
	}
	found, err := s.Grep(ctx, "needle", "many")
	if err != nil || !found.Incomplete || len(found.Matches) != maxMatches || found.Matches[9].Line != 10 ||
		found.Matches[9].Text != "needle" {
		t.Errorf("a file of many matches: %d, %v", len(found.Matches), err)
	}
	if found, err = s.Grep(ctx, "needle", "long"); err != nil || len(found.Matches[0].Text) > maxLineBytes+3 {
		t.Errorf("a long line: %+v, %v", found, err)
	}
	for _, pattern := range []string{
		"", "(", "a)", strings.Repeat("a", 257), "((a{1000}){1000}){1000}", "(a{0,100}){0,100}", `(\pL{50}){50}`,
	} {
		if _, err := s.Grep(ctx, pattern, ""); !told(err) {
			t.Errorf("the pattern %.20q: %v", pattern, err)
		}
	}
}

// A search ends when it has used up what one may use.
func TestASearchIsBounded(t *testing.T) {
	s, ctx := newSite(t), t.Context()
	for i := range 10 {
		content := strings.Repeat("a", record.MaxValueBytes)
		if _, err := s.Write(ctx, s.cause(), fmt.Sprintf("/%d", i), content, Text); err != nil {
			t.Fatal(err)
		}
	}
	s.objects.Intercept(nil)
	found, err := s.Grep(ctx, "b", "")
	if reads := s.objects.Calls(recordtest.ReadBlob); err != nil || !found.Incomplete || reads != 8 {
		t.Errorf("a search reads %d files of 512 KiB: %+v, %v", reads, found, err)
	}
	s.objects.Intercept(nil)
	found, err = s.Grep(ctx, "(a?){40}b", "")
	if reads := s.objects.Calls(recordtest.ReadBlob); err != nil || !found.Incomplete || reads > 2 {
		t.Errorf("a search with a dear pattern reads %d files: %+v, %v", reads, found, err)
	}
}

func TestAFullFilesystemSaysSo(t *testing.T) {
	s, ctx := newSite(t), t.Context()
	var err error
	written := 0
	for ; err == nil && written < 40; written++ {
		_, err = s.Write(ctx, s.cause(), fmt.Sprintf("/%d", written), strings.Repeat("a", record.MaxValueBytes), Text)
	}
	if !told(err) || !errors.Is(err, record.ErrFull) || written != 33 {
		t.Errorf("write %d of 512 KiB: %v", written, err)
	}
	if _, err := s.Delete(ctx, s.cause(), "/0", false); err != nil {
		t.Errorf("deleting a file of a full filesystem: %v", err)
	}
	// The directories of one path count as well.
	s = newSite(t)
	for i := range record.MaxKeys/32 + 1 {
		_, err = s.Write(ctx, s.cause(), fmt.Sprintf("/%d%s", i, strings.Repeat("/d", 31)), "", Text)
	}
	if !told(err) || len(s.paths()) != record.MaxKeys {
		t.Errorf("%d paths: %v", len(s.paths()), err)
	}
}

func TestInitialFilesAreReadWithAPlaceOfTheNamespace(t *testing.T) {
	places := fairshare.NewPool(fairshare.Options{Total: fairshare.Amount{Places: 8}})
	asked := 0
	files := New(record.New(memory.New(), record.Options{Places: places}), Session{Namespace: "ns", Name: "s", UID: "s1"},
		func(context.Context) ([]Initial, error) {
			asked++
			if held := places.Held().Places; held != 1 {
				t.Errorf("%d places are held", held)
			}
			return []Initial{{Path: "/a", Content: "a"}}, nil
		})
	for range 2 {
		if file, err := files.Read(t.Context(), "/a"); err != nil || file == nil || file.Content != "a" {
			t.Fatalf("the file is %+v, %v", file, err)
		}
	}
	if held := places.Held().Places; asked != 1 || held != 0 {
		t.Errorf("asked %d times, and %d places remain", asked, held)
	}
}
