package record

import (
	"bytes"
	"context"
	"errors"
	"testing"
)

// single are Objects with one index and one blob, which count how often they are read.
type single struct {
	Objects
	index Stored
	blob  []byte
	reads int
}

func (s *single) ReadIndex(context.Context, Scope) (Stored, error) {
	if s.index.Payload == nil {
		return Stored{}, ErrNotFound
	}
	return s.index, nil
}

func (s *single) ReadBlob(context.Context, Scope, string) ([]byte, error) {
	s.reads++
	return s.blob, nil
}

func (s *single) WriteIndex(_ context.Context, _ Scope, index Stored) error {
	if index.Version != s.index.Version {
		return ErrChanged
	}
	s.index = index
	s.index.Version += "+"
	return nil
}

func (s *single) CreateBlob(_ context.Context, _ Scope, _ string, payload []byte) error {
	s.blob = payload
	return nil
}

func (s *single) DeleteBlob(context.Context, Scope, string) error { return nil }

// write writes a value of so many bytes from a process of its own.
func (s *single) write(t *testing.T, fill byte, size int) {
	t.Helper()
	o := Operation{
		Cause: Cause{Step: 1, Key: string(fill)},
		Put:   []Put{{Key: "/a", Value: bytes.Repeat([]byte{fill}, size)}},
	}
	if _, err := New(s, Options{}).Apply(t.Context(), Scope{}, o); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, store Store) []byte {
	t.Helper()
	_, value, err := store.Get(t.Context(), Scope{}, "/a")
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func TestAValueIsReadOnce(t *testing.T) {
	objects := &single{}
	objects.write(t, 'a', 10_000)
	store := New(objects, Options{KeptBytes: 1 << 20})
	for range 3 {
		value := read(t, store)
		if len(value) != 10_000 || value[0] != 'a' {
			t.Fatalf("the value has %d bytes", len(value))
		}
		value[0] = 'x' // The caller may change it.
	}
	if objects.reads != 1 {
		t.Fatalf("the blob was read %d times", objects.reads)
	}
	objects.write(t, 'b', 10_000)
	if value := read(t, store); value[0] != 'b' || objects.reads != 2 {
		t.Fatalf("after a change by another process the value begins with %c, after %d reads", value[0], objects.reads)
	}
}

// A server that was restored from a backup uses its versions again, and the revision of the index with them.
func TestAnIndexIsKnownByItsBytesAlone(t *testing.T) {
	objects := &single{}
	objects.write(t, 'a', 10)
	store := New(objects, Options{KeptBytes: 1 << 20})
	if value := read(t, store); value[0] != 'a' {
		t.Fatalf("the value begins with %c", value[0])
	}
	version := objects.index.Version
	objects.index = Stored{}
	objects.write(t, 'b', 10)
	if objects.index.Version != version || objects.index.Revision != 1 {
		t.Fatalf("the index has version %q and revision %d", objects.index.Version, objects.index.Revision)
	}
	if value := read(t, store); value[0] != 'b' {
		t.Fatalf("the value begins with %c", value[0])
	}
	objects.index.Payload = []byte("damaged")
	if _, err := store.List(t.Context(), Scope{}); !errors.Is(err, ErrFormat) {
		t.Fatalf("listing a damaged index: %v", err)
	}
}

// A change by this process is known without decoding it, and is the same as decoded.
func TestAChangeIsKept(t *testing.T) {
	objects := &single{}
	store := New(objects, Options{KeptBytes: 1 << 20})
	value := bytes.Repeat([]byte("a"), 10)
	o := Operation{Cause: Cause{Step: 1, Key: "x"}, Put: []Put{{Key: "/a", Value: value}}}
	if _, err := store.Apply(t.Context(), Scope{}, o); err != nil {
		t.Fatal(err)
	}
	value[0] = 'x' // It belongs to the caller again.
	if value := read(t, store); value[0] != 'a' {
		t.Fatalf("the value begins with %c", value[0])
	}
	warm, err := store.List(t.Context(), Scope{})
	if err != nil {
		t.Fatal(err)
	}
	if again, err := store.List(t.Context(), Scope{}); err != nil || again != warm {
		t.Fatalf("the index was decoded again, %v", err)
	}
	cold, err := New(objects, Options{}).List(t.Context(), Scope{})
	if err != nil || !cold.Items[0].Modified.Equal(warm.Items[0].Modified) ||
		!cold.Items[0].Created.Equal(warm.Items[0].Created) {
		t.Fatalf("decoded it has %+v, %v, and kept %+v", cold, err, warm)
	}
}
