package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/record/memory"
)

var (
	demo  = record.Session{Namespace: "team-a", Name: "demo", UID: "1"}
	start = time.Date(2031, 5, 4, 12, 0, 0, 0, time.UTC)
)

// desk has stores whose clock goes on by a second with each operation.
type desk struct {
	t     *testing.T
	store record.Store
	now   time.Time
	step  int64
}

func newDesk(t *testing.T) *desk {
	d := &desk{t: t, now: start}
	d.store = record.New(memory.New(), record.Options{Clock: func() time.Time {
		d.now = d.now.Add(time.Second)
		return d.now
	}})
	return d
}

// next is the cause of an operation of a step of its own.
func (d *desk) next() record.Cause {
	d.step++
	return record.Cause{Step: d.step, Key: "turn/1-0"}
}

func (d *desk) set(s *Storage, key, value string) *Written {
	d.t.Helper()
	written, err := s.Set(d.t.Context(), d.next(), key, value)
	if err != nil {
		d.t.Fatal(err)
	}
	return written
}

// explained is the text of an error that the model is shown; empty for none.
func explained(err error) string {
	var e *record.ExplainedError
	if errors.As(err, &e) {
		return e.Error()
	}
	return ""
}

// Rules: KV-01.
func TestValuesAreSetReadListedAndDeleted(t *testing.T) {
	d := newDesk(t)
	s := Of(d.store, demo)
	if v, err := s.Get(t.Context(), "a"); v != nil || err != nil {
		t.Fatalf("a key that was never set has %+v, %v", v, err)
	}
	if w := d.set(s, "a/b", "one"); !w.Created || w.Size != 3 {
		t.Errorf("the first write is %+v", w)
	}
	d.set(s, "a/a", "")
	d.set(s, "b", strings.Repeat("x", MaxValueBytes))
	if w := d.set(s, "a/b", "two!"); w.Created || w.Size != 4 {
		t.Errorf("the second write is %+v", w)
	}
	v, err := s.Get(t.Context(), "a/b")
	if err != nil || v == nil || v.Value != "two!" || !v.Created.Equal(start.Add(time.Second)) ||
		!v.Updated.Equal(start.Add(4*time.Second)) {
		t.Errorf("the value is %+v, %v", v, err)
	}
	if v, err := s.Get(t.Context(), "b"); err != nil || len(v.Value) != MaxValueBytes {
		t.Errorf("the largest value is not read: %v", err)
	}
	list := func(begin, want string) {
		t.Helper()
		infos, err := s.List(t.Context(), begin)
		var keys []string
		for _, i := range infos {
			keys = append(keys, fmt.Sprintf("%s:%d", i.Key, i.Size))
		}
		if got := strings.Join(keys, " "); got != want || err != nil {
			t.Errorf("the list of %q is %s, %v; want %s", begin, got, err, want)
		}
	}
	list("", "a/a:0 a/b:4 b:65536")
	list("a/", "a/a:0 a/b:4")
	for _, want := range []bool{true, false} {
		if existed, err := s.Delete(t.Context(), d.next(), "a/b"); existed != want || err != nil {
			t.Errorf("the deletion returns %v, %v; want %v", existed, err, want)
		}
	}
	list("", "a/a:0 b:65536")
}

// Rules: KV-01.
func TestAChangeOfAValueHappensOnce(t *testing.T) {
	d := newDesk(t)
	s := Of(d.store, demo)
	cause := d.next()
	for range 2 {
		if w, err := s.Set(t.Context(), cause, "a", "one"); err != nil || !w.Created {
			t.Fatalf("the write is %+v, %v", w, err)
		}
	}
	second := record.Cause{Step: cause.Step, Key: "turn/1-1"}
	for range 2 {
		if existed, err := s.Delete(t.Context(), second, "a"); err != nil || !existed {
			t.Fatalf("the deletion is %v, %v", existed, err)
		}
	}
	if w, err := s.Set(t.Context(), cause, "a", "again"); err != nil || !w.Created {
		t.Fatalf("the write is %+v, %v", w, err)
	}
	if v, err := s.Get(t.Context(), "a"); v != nil || err != nil {
		t.Errorf("a repeated call has written %+v, %v", v, err)
	}
	d.next()
	d.set(s, "b", "of a later step")
	if _, err := s.Set(t.Context(), cause, "a", "late"); !errors.Is(err, record.ErrStale) {
		t.Errorf("a process that was overtaken writes: %v", err)
	}
}

// Rules: KV-01.
func TestValuesAreBounded(t *testing.T) {
	d := newDesk(t)
	s := Of(d.store, demo)
	for _, key := range []string{"", strings.Repeat("k", MaxKeyBytes+1), "a\x00", "a\nb", "\xff"} {
		if _, err := s.Set(t.Context(), d.next(), key, "v"); explained(err) == "" {
			t.Errorf("the key %q: %v", key, err)
		}
		if _, err := s.Get(t.Context(), key); explained(err) == "" {
			t.Errorf("the key %q: %v", key, err)
		}
	}
	for _, value := range []string{strings.Repeat("v", MaxValueBytes+1), "\xff"} {
		if _, err := s.Set(t.Context(), d.next(), "a", value); explained(err) == "" {
			t.Errorf("a value of %d bytes: %v", len(value), err)
		}
	}
	large := strings.Repeat("v", MaxValueBytes)
	for n := range MaxBytes / MaxValueBytes {
		d.set(s, fmt.Sprintf("large-%02d", n), large)
	}
	if _, err := s.Set(t.Context(), d.next(), "one-more", "v"); !strings.Contains(explained(err), "full") {
		t.Errorf("the store has no maximum size: %v", err)
	}
	d.set(s, "large-00", "small")
	d.set(s, "one-more", "v")
}

// Rules: KV-01.
func TestASessionHasABoundedNumberOfValues(t *testing.T) {
	d := newDesk(t)
	s := Of(d.store, demo)
	_, err := d.store.Update(t.Context(), ScopeOf(demo), d.next(),
		func(context.Context, *record.Index) (*record.Operation, error) {
			o := &record.Operation{}
			for n := range MaxKeys {
				o.Put = append(o.Put, record.Put{Key: fmt.Sprintf("%s%d", prefix, n)})
			}
			return o, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Set(t.Context(), d.next(), "one-more", ""); !strings.Contains(explained(err), "1024") {
		t.Errorf("a further key: %v", err)
	}
	if w := d.set(s, "7", "replaced"); w.Created {
		t.Errorf("a key that exists is not replaced: %+v", w)
	}
}

// Rules: KV-01.
func TestASessionHasItsOwnValues(t *testing.T) {
	d := newDesk(t)
	d.set(Of(d.store, demo), "a", "one")
	for _, other := range []record.Session{
		{Namespace: "team-a", Name: "demo", UID: "2"},
		{Namespace: "team-a", Name: "other", UID: "3"},
		{Namespace: "team-b", Name: "demo", UID: "4"},
	} {
		s := Of(d.store, other)
		if v, err := s.Get(t.Context(), "a"); v != nil || err != nil {
			t.Errorf("%+v reads %+v, %v", other, v, err)
		}
		if infos, err := s.List(t.Context(), ""); len(infos) != 0 || err != nil {
			t.Errorf("%+v lists %+v, %v", other, infos, err)
		}
	}
}

func FuzzKeys(f *testing.F) {
	for _, key := range []string{"", "a", "../a", "value/x", "\xff", "a\u2028b", "ключ"} {
		f.Add(key, "value")
	}
	f.Fuzz(func(t *testing.T, key, value string) {
		d := newDesk(t)
		s := Of(d.store, demo)
		_, err := s.Set(t.Context(), d.next(), key, value)
		if err != nil {
			if explained(err) == "" {
				t.Fatalf("%q: %v", key, err)
			}
			return
		}
		v, err := s.Get(t.Context(), key)
		if err != nil || v.Key != key || v.Value != value {
			t.Fatalf("%q is read as %+v, %v", key, v, err)
		}
		if infos, err := s.List(t.Context(), key); err != nil || len(infos) != 1 || infos[0].Key != key {
			t.Fatalf("%q is listed as %+v, %v", key, infos, err)
		}
	})
}
