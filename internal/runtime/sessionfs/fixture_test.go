package sessionfs

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/record/memory"
	"github.com/capstan-dev/capstan/internal/runtime/record/recordtest"
)

// site is a filesystem in memory.
type site struct {
	*FS
	t       *testing.T
	objects *recordtest.Objects
	changes int
	// asked is how often the initial files were asked for.
	asked int
}

func newSite(t *testing.T, initial ...Initial) *site {
	objects := recordtest.Wrap(memory.New())
	s := &site{t: t, objects: objects}
	s.FS = New(record.New(objects, record.Options{}), Session{Namespace: "default", Name: "demo", UID: "demo-uid"},
		func(context.Context) ([]Initial, error) {
			s.asked++
			return initial, nil
		})
	return s
}

// cause is one that no other change has.
func (s *site) cause() record.Cause {
	s.changes++
	return record.Cause{Step: 1, Key: fmt.Sprint(s.changes)}
}

// write writes text files.
func (s *site) write(paths ...string) {
	s.t.Helper()
	for _, path := range paths {
		if _, err := s.Write(s.t.Context(), s.cause(), path, "content of "+path, Text); err != nil {
			s.t.Fatalf("writing %s: %v", path, err)
		}
	}
}

// paths are the paths of all files and directories.
func (s *site) paths() []string {
	s.t.Helper()
	x, err := s.Seed(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	paths := []string{}
	for _, item := range x.Items {
		paths = append(paths, item.Key)
	}
	return paths
}

// content is the content of a file.
func (s *site) content(path string) string {
	s.t.Helper()
	file, err := s.Read(s.t.Context(), path)
	if err != nil || file == nil {
		s.t.Fatalf("reading %s: %v, %v", path, file, err)
	}
	return file.Content
}

// told reports whether an error may be shown.
func told(err error) bool {
	var shown *Error
	return errors.As(err, &shown)
}
