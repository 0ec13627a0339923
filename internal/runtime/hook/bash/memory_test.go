package bash

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/capstan-dev/capstan/internal/runtime/hook"
)

// Memory is files of one Session in memory.
type Memory struct {
	mu      sync.Mutex
	files   map[string]Change
	applied map[string]bool
}

// NewMemory returns files with contents by path.
func NewMemory(contents map[string]string) *Memory {
	m := &Memory{files: map[string]Change{}, applied: map[string]bool{}}
	for name, content := range contents {
		m.files[name] = Change{Path: name, Content: []byte(content)}
	}
	return m
}

// List implements Files.
func (m *Memory) List(context.Context, hook.Identity) ([]File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []File
	for _, name := range slices.Sorted(maps.Keys(m.files)) {
		all = append(all, File{Path: name, Dir: m.files[name].Dir, Size: int64(len(m.files[name].Content))})
	}
	return all, nil
}

// Read implements Files.
func (m *Memory) Read(_ context.Context, _ hook.Identity, name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, ok := m.files[name]
	if !ok || f.Dir {
		return nil, fmt.Errorf("%s does not exist", name)
	}
	return f.Content, nil
}

// Apply implements Files.
func (m *Memory) Apply(_ context.Context, _ hook.Identity, key string, changes []Change) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.applied[key] {
		return nil
	}
	m.applied[key] = true
	for _, c := range changes {
		if c.Deleted {
			maps.DeleteFunc(m.files, func(name string, _ Change) bool {
				return name == c.Path || strings.HasPrefix(name, c.Path+"/")
			})
			continue
		}
		m.files[c.Path] = c
	}
	return nil
}
