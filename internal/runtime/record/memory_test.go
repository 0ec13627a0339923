//go:build !race

package record_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/record/memory"
	usage "github.com/capstan-dev/capstan/internal/testing/memory"
)

// The largest index, and the operation that writes all of its pages, take no more memory than docs/operations.md states
// for a place.
func TestTheLargestIndexTakesItsMemory(t *testing.T) {
	objects := memory.New()
	store := record.New(objects, record.Options{})
	fill := func(first, last, length int) error {
		o := record.Operation{Cause: record.Cause{Step: 1, Key: fmt.Sprint(first)}}
		for i := first; i < last; i++ {
			key := fmt.Sprintf("/%04d/", i)
			o.Put = append(o.Put, record.Put{Key: key + strings.Repeat("<", length-len(key)), Kind: "file", Encoding: "text"})
		}
		_, err := store.Apply(t.Context(), recorded, o)
		return err
	}
	for first := 0; first < record.MaxKeys; first += 1000 {
		if err := fill(first, min(record.MaxKeys, first+1000), 380); err != nil {
			t.Fatal(err)
		}
	}
	if used := usage.Allocated(func() {
		if _, err := store.List(t.Context(), recorded); err != nil {
			t.Fatal(err)
		}
	}); used > 12<<20 {
		t.Errorf("listing allocates %d bytes", used)
	}
	if used := usage.Allocated(func() {
		if err := fill(0, 1000, 380); err != nil {
			t.Fatal(err)
		}
	}); used > 12<<20 {
		t.Errorf("a change allocates %d bytes", used)
	}
}
