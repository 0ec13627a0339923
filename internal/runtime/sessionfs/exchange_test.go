package sessionfs

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/record"
)

func TestFilesAreSelectedWithinBounds(t *testing.T) {
	s := newSite(t, Initial{Path: "/src/a", Content: "a"}, Initial{Path: "/src/sub/b", Content: "b"},
		Initial{Path: "/srcs", Content: "other"}, Initial{Path: "/c", Content: "c"})
	for paths, want := range map[string]string{
		"/src": "/src/a=a /src/sub/b=b", "/workspace/src/a,/c": "/c=c /src/a=a", "/none": "", "": "",
		"/": "/c=c /src/a=a /src/sub/b=b /srcs=other", "/src,/src/a": "/src/a=a /src/sub/b=b",
	} {
		var list []string
		if paths != "" {
			list = strings.Split(paths, ",")
		}
		selected, err := s.Select(t.Context(), list, 4, 8)
		if err != nil || selected.Revision == 0 {
			t.Fatalf("%s: %+v, %v", paths, selected, err)
		}
		var got []string
		for _, file := range selected.Files {
			got = append(got, file.Path+"="+string(file.Content))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v", paths, got)
		}
	}
	for name, most := range map[string]struct {
		files int
		bytes int64
	}{"files": {3, 8}, "bytes": {4, 7}} {
		if _, err := s.Select(t.Context(), []string{"/"}, most.files, most.bytes); !errors.Is(err, ErrTooLarge) {
			t.Errorf("too many %s: %v", name, err)
		}
	}
	if _, err := s.Select(t.Context(), []string{"/../a"}, 1, 1); !told(err) {
		t.Errorf("an invalid path: %v", err)
	}
}

// refusals is the result of an operation.
func refusals(refused []Refusal) string { return fmt.Sprint(refused) }

// What changed meanwhile is not overwritten, and everything else is written in one operation.
func TestFilesThatAToolReturnsAreWrittenUnlessTheyHaveChanged(t *testing.T) {
	s := newSite(t, Initial{Path: "/locked", Content: "l", ReadOnly: true})
	s.write("/same", "/edited", "/gone", "/dir/in", "/file")
	before, err := s.Select(t.Context(), []string{"/"}, 100, 1000)
	if err != nil {
		t.Fatal(err)
	}
	s.write("/edited")
	if _, err := s.Delete(t.Context(), s.cause(), "/gone", false); err != nil {
		t.Fatal(err)
	}
	files := []Content{
		{Path: "/dir", Content: []byte("x")},
		{Path: "/edited", Content: []byte("x"), Given: true},
		{Path: "/file/below", Content: []byte("x")},
		{Path: "/gone", Content: []byte("x"), Given: true},
		{Path: "/locked", Content: []byte("x"), Given: true},
		{Path: "/new/deep", Content: []byte("new")},
		{Path: "/same", Content: []byte("changed"), Given: true},
		{Path: "/../up", Content: []byte("x")},
		{Path: "/"},
	}
	cause := record.Cause{Step: 1, Key: "turn/1-0/files"}
	s.objects.Intercept(nil)
	got, err := s.Return(t.Context(), cause, before.Revision, files, refusals)
	want := "[{/dir a directory has its path} {/edited changed meanwhile} {/file/below a file is in the place of its " +
		"directory} {/gone deleted meanwhile} {/locked read-only} {/../up invalid path} {/ a directory has its path}]"
	if err != nil || got != want {
		t.Fatalf("refused %s: %v", got, err)
	}
	if writes := s.objects.Calls("WriteIndex"); writes != 1 {
		t.Errorf("%d operations", writes)
	}
	if s.content("/new/deep") != "new" || s.content("/same") != "changed" || s.content("/edited") != "content of /edited" {
		t.Errorf("the files are %v", s.paths())
	}
	// The same operation, by a process that does not know that it was carried out.
	again, err := s.Return(t.Context(), cause, before.Revision, files, func([]Refusal) string { return "other" })
	if err != nil || again != want {
		t.Errorf("repeated it refuses %s: %v", again, err)
	}
}

func TestFilesForWhichThereIsNoRoomAreRefusedTogether(t *testing.T) {
	s := newSite(t)
	many := func(n, count int) []Content {
		files := make([]Content, count)
		for i := range files {
			files[i] = Content{Path: fmt.Sprintf("/%d-%04d", n, i), Content: []byte("x")}
		}
		return files
	}
	const rounds = record.MaxKeys / record.MaxChanges
	for n := range rounds - 1 {
		if _, err := s.Return(t.Context(), s.cause(), 1, many(n, record.MaxChanges), refusals); err != nil {
			t.Fatal(err)
		}
	}
	s.write("/one-more")
	before := len(s.paths())
	_, err := s.Return(t.Context(), s.cause(), 1, many(rounds, record.MaxChanges), refusals)
	if !told(err) || len(s.paths()) != before {
		t.Errorf("%d files are written: %v", len(s.paths())-before, err)
	}
}
