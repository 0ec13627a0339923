package record_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/record/memory"
)

var recorded = record.Scope{Namespace: "default", Session: "demo", UID: "demo-uid", Store: "files"}

// indexOfFormat1 is an index that was stored before indexes had pages.
func indexOfFormat1(t *testing.T) record.Objects {
	t.Helper()
	text, err := os.ReadFile("testdata/index-format-1.b64")
	if err != nil {
		t.Fatal(err)
	}
	payload, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	objects := memory.New()
	stored := record.Stored{Payload: payload, Revision: 3, Format: record.Format}
	if err := objects.WriteIndex(t.Context(), recorded, stored); err != nil {
		t.Fatal(err)
	}
	return objects
}

func TestAnIndexOfFormat1IsReadAndChanged(t *testing.T) {
	store := record.New(indexOfFormat1(t), record.Options{})
	x, err := store.List(t.Context(), recorded)
	if err != nil || x.Revision != 3 || len(x.Items) != 5 || x.Bytes() != 5025 {
		t.Fatalf("the index is %+v, %v", x, err)
	}
	item, value, err := store.Get(t.Context(), recorded, "/ünïcode <&>.txt")
	at := time.Date(2026, 11, 24, 20, 1, 0, 7_000_000, time.UTC)
	if err != nil || string(value) != "ü" || item.Revision != 2 || item.Encoding != "text" || item.Kind != "file" ||
		!item.Created.Equal(at) || !item.Modified.Equal(at) {
		t.Fatalf("an item is %+v, %q, %v", item, value, err)
	}
	if outcome, known := x.Outcome(record.Cause{Step: 5, Key: "turn/2-0"}); !known || outcome.Revision != 3 {
		t.Fatalf("the outcome of the last step is %+v, %t", outcome, known)
	}
	seed := record.Operation{Cause: record.Cause{Key: "seed"}, Put: []record.Put{{Key: "/again"}}}
	if outcome, err := store.Apply(t.Context(), recorded, seed); err != nil || outcome.Revision != 1 {
		t.Fatalf("the first operation, repeated, yields %+v, %v", outcome, err)
	}
	// The same index may become one with pages.
	o := record.Operation{Cause: record.Cause{Step: 6, Key: "many"}}
	for i := range record.MaxChanges {
		o.Put = append(o.Put, record.Put{Key: fmt.Sprintf("/many/%04d", i)})
	}
	if outcome, err := store.Apply(t.Context(), recorded, o); err != nil || outcome.Revision != 4 {
		t.Fatalf("a change yields %+v, %v", outcome, err)
	}
	x, err = store.List(t.Context(), recorded)
	if err != nil || len(x.Items) != 5+record.MaxChanges {
		t.Fatalf("the changed index has %d keys, %v", len(x.Items), err)
	}
	if again, _ := x.Find("/ünïcode <&>.txt"); again.Revision != 2 || !again.Created.Equal(at) {
		t.Fatalf("an item that was not changed is %+v", again)
	}
}

// dump is a store as it is stored.
type dump struct {
	Index    []byte            `json:"index"`
	Revision int64             `json:"revision"`
	Format   int32             `json:"format"`
	Blobs    map[string][]byte `json:"blobs"`
}

// indexOfFormat2 is an index with pages that was stored before it had the size of all values.
func indexOfFormat2(t *testing.T) record.Objects {
	t.Helper()
	text, err := os.ReadFile("testdata/index-format-2.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dump
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	objects := memory.New()
	for name, payload := range d.Blobs {
		if err := objects.CreateBlob(t.Context(), recorded, name, payload); err != nil {
			t.Fatal(err)
		}
	}
	stored := record.Stored{Payload: d.Index, Revision: d.Revision, Format: d.Format}
	if err := objects.WriteIndex(t.Context(), recorded, stored); err != nil {
		t.Fatal(err)
	}
	return objects
}

func TestAnIndexOfFormat2IsReadAndChanged(t *testing.T) {
	store := record.New(indexOfFormat2(t), record.Options{})
	x, err := store.List(t.Context(), recorded)
	if err != nil || x.Revision != 3 || len(x.Items) != 530 {
		t.Fatalf("the index has revision %d and %d keys, %v", x.Revision, len(x.Items), err)
	}
	o := record.Operation{Cause: record.Cause{Step: 9, Key: "x"}, Put: []record.Put{{Key: "/0700", Value: []byte("new")}}}
	if _, err := store.Apply(t.Context(), recorded, o); err != nil {
		t.Fatal(err)
	}
	if item, value, err := store.Get(t.Context(), recorded, "/0700"); err != nil || item.Revision != 4 ||
		string(value) != "new" || item.Created.Equal(item.Modified) {
		t.Fatalf("the changed key is %+v, %q, %v", item, value, err)
	}
	if _, value, err := store.Get(t.Context(), recorded, "/0701"); err != nil || !bytes.Equal(value, []byte("x")) {
		t.Fatalf("another key has the value %q, %v", value, err)
	}
}

// An index with pages that does not have the size of all values is counted by its pages.
func TestAnIndexOfFormat2IsCounted(t *testing.T) {
	const limit = 100_000
	small := recorded
	small.UID = "small"
	store := record.New(indexOfFormat2(t), record.Options{Ceiling: &record.Ceiling{
		Bytes: limit,
		Stores: func(context.Context, string) ([]record.Scope, error) {
			return []record.Scope{recorded, small}, nil
		},
	}})
	put := func(size int) error {
		_, err := store.Apply(t.Context(), small, record.Operation{
			Cause: record.Cause{Step: 1, Key: fmt.Sprint(size)}, Put: []record.Put{{Key: "/a", Value: make([]byte, size)}},
		})
		return err
	}
	if err := put(limit - 500); !errors.Is(err, record.ErrNamespaceFull) {
		t.Errorf("with the 530 bytes of the other store above the ceiling: %v", err)
	}
	if err := put(limit - 50_000); err != nil {
		t.Errorf("with the other store below the ceiling: %v", err)
	}
}
