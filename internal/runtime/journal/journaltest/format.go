package journaltest

import (
	"errors"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
)

// unknownFormat has a journal with an entry of a later version: every operation reports it, and none continues without
// it.
func unknownFormat(f *fixture) {
	of := turn("a")
	payload := func(text string) *v1alpha1.JSON { return &v1alpha1.JSON{Raw: []byte(text)} }
	for name, spec := range map[string]v1alpha1.JournalEntrySpec{
		"format":       {Format: journal.Format + 1, Final: true, Payload: payload(`{"digest":"later"}`)},
		"kind of part": {Format: 2, Payload: payload(`{"later":{"id":"1-0"}}`)},
		"field of a known part": {
			Format: 2, Payload: payload(`{"claimed":{"id":"1-0","holder":"h","until":"later"}}`),
		},
		"kind of part, compressed": compressed(f, `{"later":{"id":"1-0"}}`),
		"compressed payload":       {Format: journal.Format, Payload: payload(`"AAAA"`)},
		"kind of part of format 1": {Payload: payload(`{"later":{"id":"1-0"}}`)},
		"empty part":               {Format: journal.Format},
		"damaged payload":          {Format: 2, Payload: payload(`"text"`)},
	} {
		f := f.another()
		spec.Session, spec.Ordinal, spec.Turn, spec.Step, spec.Time = f.session.Name, 1, &of, 1, metav1.NowMicro()
		if err := f.store.Create(f.t.Context(), f.session, &spec); err != nil {
			f.t.Fatal(err)
		}
		ctx := f.t.Context()
		_, find := f.log().Find(ctx, f.session, of.UID, 1, 1)
		_, _, resume := f.log().Resume(ctx, f.session, of, 1, 1)
		_, view := f.log().View(ctx, f.session, 0)
		_, appended := f.log().Append(ctx, f.session, respond(of, 1, 1, "x"))
		_, _, claim := f.log().Claim(ctx, f.session, of, 1, 1, journal.ClaimedCall{ID: "1-0", Holder: "h"})
		_, settled := f.log().Settled(ctx, f.session, of.UID, 1, 1)
		_, probe := f.log().Probe(ctx, f.session, of, 1, 1)
		for what, err := range map[string]error{
			"find": find, "resume": resume, "view": view, "append": appended, "claim": claim, "settled": settled, "probe": probe,
		} {
			if !errors.Is(err, journal.ErrFormat) {
				f.t.Errorf("an unknown %s: %s returned %v", name, what, err)
			}
		}
		if _, err := f.store.Get(ctx, f.session, 2); !errors.Is(err, journal.ErrNotFound) {
			f.t.Errorf("an unknown %s: the next ordinal has %v", name, err)
		}
	}
}

// compressed returns an entry with a compressed payload.
func compressed(f *fixture, payload string) v1alpha1.JournalEntrySpec {
	raw := []byte(payload + strings.Repeat(" ", 1000)) // so that compression makes it shorter
	spec, err := format.Pack(&v1alpha1.JournalEntrySpec{Format: 2, Payload: &v1alpha1.JSON{Raw: raw}})
	if err != nil || spec.Format != journal.Format {
		f.t.Fatalf("compressed to format %d, %v", spec.Format, err)
	}
	return *spec
}

// probe looks whether a step can be closed, and writes nothing.
func probe(f *fixture) {
	f.fill(3)
	log := f.log()
	closed, err := log.Probe(f.t.Context(), f.session, turn("b"), 1, 4)
	if err != nil || closed != nil {
		f.t.Fatalf("a journal that accepts entries: %+v, %v", closed, err)
	}
	if n := len(f.entries()); n != 3 {
		f.t.Fatalf("a probe has written: %d entries", n)
	}
	if _, err := log.Probe(f.t.Context(), f.session, turn("b"), 1, 9); !errors.Is(err, journal.ErrCorrupt) {
		f.t.Fatalf("a journal that ends too early: %v", err)
	}
	f.append(f.log(), respond(turn("b"), 1, 4, "x"))
	if closed, err = log.Probe(f.t.Context(), f.session, turn("b"), 1, 4); err != nil || closed == nil ||
		closed.Ordinal != 4 {
		f.t.Fatalf("a step that another process has closed: %+v, %v", closed, err)
	}
}
