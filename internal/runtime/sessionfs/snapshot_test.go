package sessionfs

import (
	"slices"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/record"
)

// snapshot is the files of a site as they are now.
func (s *site) snapshot() *Snapshot {
	s.t.Helper()
	snapshot, err := s.Snapshot(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return snapshot
}

func written(path, content string) Change { return Change{Path: path, Content: []byte(content)} }
func deleted(path string) Change          { return Change{Path: path, Deleted: true} }

// Rules: FS-01, FS-05.
func TestChangesOfASnapshotAreMadeTogether(t *testing.T) {
	initial := []Initial{
		{Path: "/a", Content: "a"},
		{Path: "/d/e/f", Content: "f"},
		{Path: "/locked/x", Content: "x", ReadOnly: true},
		{Path: "/bin", Content: "AP8=", Encoding: Base64},
	}
	all := []string{"/a", "/bin", "/d", "/d/e", "/d/e/f", "/locked", "/locked/x"}
	for name, test := range map[string]struct {
		changes []Change
		// want are the paths after the changes, or what is wrong with them.
		want  []string
		wrong string
	}{
		"nothing":                  {nil, all, ""},
		"a file below directories": {[]Change{written("/n/m", "x")}, append(slices.Clone(all), "/n", "/n/m"), ""},
		"a directory": {
			[]Change{{Path: "/n", Dir: true}, {Path: "/d", Dir: true}}, append(slices.Clone(all), "/n"), "",
		},
		"a directory is deleted": {[]Change{deleted("/d")}, []string{"/a", "/bin", "/locked", "/locked/x"}, ""},
		"a file becomes a directory": {
			[]Change{deleted("/a"), written("/a/b", "x")}, slices.Insert(slices.Clone(all), 1, "/a/b"), "",
		},
		"a directory becomes a file": {
			[]Change{deleted("/d/e/f"), deleted("/d/e"), written("/d/e", "x")},
			[]string{"/a", "/bin", "/d", "/d/e", "/locked", "/locked/x"},
			"",
		},
		"what does not exist is deleted": {[]Change{deleted("/n")}, all, ""},
		"a read-only file is written": {
			[]Change{written("/b", "x"), written("/locked/x", "y")}, all, "/locked/x is read-only.",
		},
		"a read-only file is deleted": {[]Change{written("/b", "x"), deleted("/locked")}, all, "/locked/x is read-only."},
		"a directory is written":      {[]Change{written("/b", "x"), written("/d", "y")}, all, "/d is a directory."},
		"a file is above":             {[]Change{written("/b", "x"), written("/a/b", "y")}, all, "/a is a file"},
		"a path leads upwards":        {[]Change{written("/b", "x"), written("/../b", "y")}, all, `".."`},
		"the root":                    {[]Change{written("/b", "x"), deleted("/")}, all, "The root"},
		"a file is too large": {
			[]Change{written("/b", "x"), written("/c", strings.Repeat("x", 600<<10))}, all, "614400 bytes",
		},
	} {
		s := newSite(t, initial...)
		err := s.snapshot().Commit(t.Context(), s.cause(), test.changes)
		if (err != nil) != (test.wrong != "") || err != nil && (!told(err) || !strings.Contains(err.Error(), test.wrong)) {
			t.Errorf("%s: %v", name, err)
		}
		if got := s.paths(); !slices.Equal(got, test.want) {
			t.Errorf("%s: the paths are %v, want %v", name, got, test.want)
		}
	}
}

// Rules: FS-04, FS-07.
func TestACommittedFileKeepsItsEncoding(t *testing.T) {
	s := newSite(t, Initial{Path: "/bin", Content: "AP8=", Encoding: Base64}, Initial{Path: "/text", Content: "x"})
	err := s.snapshot().Commit(t.Context(), s.cause(), []Change{
		written("/bin", "text"), written("/text", "\x00"), written("/new", "text"), written("/data", "\xff"),
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]Encoding{"/bin": Base64, "/text": Base64, "/new": Text, "/data": Base64} {
		if info, err := s.Stat(t.Context(), path); err != nil || info.Encoding != want {
			t.Errorf("%s has %+v, %v, want %s", path, info, err, want)
		}
	}
	if content, err := s.snapshot().Read(t.Context(), "/data"); err != nil || string(content) != "\xff" {
		t.Errorf("it is read as %q, %v", content, err)
	}
}

// Rules: FS-02, VEC-19.
func TestACommitChangesNothingThatAnotherWriterHasChanged(t *testing.T) {
	for name, test := range map[string]struct {
		meanwhile string
		change    Change
		wrong     bool
	}{
		"the same file":               {"/d/a", written("/d/a", "mine"), true},
		"the same new file":           {"/n", written("/n", "mine"), true},
		"a file that is deleted":      {"/d/a", deleted("/d/a"), true},
		"a file in what is deleted":   {"/d/new", deleted("/d"), true},
		"another file":                {"/b", written("/d/a", "mine"), false},
		"another file in a directory": {"/d/b", written("/d/a", "mine"), false},
		"a directory that both make":  {"/n/b", written("/n/a", "mine"), false},
	} {
		s := newSite(t)
		s.write("/d/a")
		snapshot := s.snapshot()
		s.write(test.meanwhile)
		err := snapshot.Commit(t.Context(), s.cause(), []Change{written("/other", "x"), test.change})
		if (err != nil) != test.wrong || err != nil && !told(err) {
			t.Errorf("%s: %v", name, err)
		}
		if test.wrong && slices.Contains(s.paths(), "/other") {
			t.Errorf("%s: a part was written", name)
		}
	}
}

// Rules: FS-01.
func TestACommitThatIsRepeatedChangesNothing(t *testing.T) {
	s := newSite(t)
	s.write("/a")
	cause := s.cause()
	for range 2 {
		if err := s.snapshot().Commit(t.Context(), cause, []Change{written("/a", "once")}); err != nil {
			t.Fatal(err)
		}
	}
	s.write("/a")
	if err := s.snapshot().Commit(t.Context(), cause, []Change{written("/a", "once")}); err != nil {
		t.Fatal(err)
	}
	if got := s.content("/a"); got != "content of /a" {
		t.Errorf("a repeated commit writes %q", got)
	}
	before, err := s.Seed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.snapshot().Commit(t.Context(), s.cause(), nil); err != nil {
		t.Fatal(err)
	}
	if after, err := s.Seed(t.Context()); err != nil || after.Revision != before.Revision {
		t.Errorf("a commit without changes makes revision %d of %d, %v", after.Revision, before.Revision, err)
	}
}

func TestASnapshotIsReadAsItWas(t *testing.T) {
	s := newSite(t)
	large := strings.Repeat("x", 10_000)
	if err := s.snapshot().Commit(t.Context(), s.cause(), []Change{written("/d/large", large)}); err != nil {
		t.Fatal(err)
	}
	snapshot := s.snapshot()
	if content, err := snapshot.Read(t.Context(), "/workspace/d/large"); err != nil || string(content) != large {
		t.Errorf("read %d bytes, %v", len(content), err)
	}
	for path, want := range map[string]string{"/d": "directory", "/": "directory", "/x": "exist", "..": ".."} {
		if _, err := snapshot.Read(t.Context(), path); !told(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("reading %s: %v", path, err)
		}
	}
	if _, err := s.Delete(t.Context(), record.Cause{Step: 1, Key: "d"}, "/d", true); err != nil {
		t.Fatal(err)
	}
	if _, err := snapshot.Read(t.Context(), "/d/large"); !told(err) || !strings.Contains(err.Error(), "meanwhile") {
		t.Errorf("a file that is gone: %v", err)
	}
}
