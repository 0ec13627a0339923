package format_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
	"github.com/capstan-dev/capstan/internal/runtime/journal/memory"
)

// recorded are the entries of a journal that a build before format 2 has written: each kind of entry, in order.
func recorded(t *testing.T) [][]byte {
	t.Helper()
	return recordedIn(t, 1)
}

// recordedIn are the entries of that journal in a format.
func recordedIn(t *testing.T, version int) [][]byte {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("testdata/format-%d.jsonl", version))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Split(bytes.TrimSpace(raw), []byte("\n"))
}

// recordedTurns are the entries of the Turns that builds before this one have left behind.
func recordedTurns(t *testing.T) [][]byte {
	t.Helper()
	files, err := filepath.Glob("../../../../test/upgrade/testdata/2026-11-a/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var specs [][]byte
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range bytes.Split(raw, []byte("---\n")) {
			var object struct {
				Kind string          `json:"kind"`
				Spec json.RawMessage `json:"spec"`
			}
			if err := yaml.Unmarshal(document, &object); err != nil {
				t.Fatal(err)
			}
			if object.Kind == "JournalEntry" {
				specs = append(specs, object.Spec)
			}
		}
	}
	return specs
}

func value(t *testing.T, raw []byte) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// asNow gives the fields of an entry the names that the API has now, and removes those that earlier builds have written
// and that no build has read since.
func asNow(entry map[string]any) {
	transition, _ := entry["transition"].(map[string]any)
	if plan, ok := transition["plan"].(map[string]any); ok {
		delete(plan, "previousResponseID")
		if opened, ok := plan["openedAt"]; ok {
			delete(plan, "openedAt")
			plan["openedAtOrdinal"] = opened
		}
	}
	calls, _ := transition["toolCalls"].([]any)
	for _, call := range calls {
		delete(call.(map[string]any), "schemaDigest")
	}
}

// TestRecordedEntriesAreReadWhole reads each entry of format 1, and again after it was written in this format.
// Rules: EVT-03.
func TestRecordedEntriesAreReadWhole(t *testing.T) {
	turns := recordedTurns(t)
	if len(turns) < 5 {
		t.Fatalf("there are %d recorded entries of Turns", len(turns))
	}
	for _, raw := range append(recorded(t), turns...) {
		spec, err := format.FromJSON(raw)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			e, err := format.Decode(spec)
			if err != nil {
				t.Fatalf("%v\n%s", err, raw)
			}
			got := asJSON(t, e)
			want := value(t, raw)
			delete(want, "format")
			asNow(want)
			if !reflect.DeepEqual(value(t, got), want) {
				t.Fatalf("read\n%s\nof\n%s", got, raw)
			}
			if spec, err = format.Encode(e); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestRecordedEntriesOfFormat2AreReadWhole: the last build that wrote format 2 has converted the recorded journal.
func TestRecordedEntriesOfFormat2AreReadWhole(t *testing.T) {
	before, after := recordedIn(t, 1), recordedIn(t, 2)
	if len(before) != len(after) {
		t.Fatalf("%d entries of format 1, %d of format 2", len(before), len(after))
	}
	for i := range before {
		var read [2]*format.Entry
		for j, raw := range [][]byte{before[i], after[i]} {
			spec, err := format.FromJSON(raw)
			if err != nil {
				t.Fatal(err)
			}
			if spec.Format != int32(j+1) {
				t.Fatalf("the format of %s is %d", raw, spec.Format)
			}
			if read[j], err = format.Decode(spec); err != nil {
				t.Fatalf("%v\n%s", err, raw)
			}
		}
		want, got := asJSON(t, read[0]), asJSON(t, read[1])
		if !reflect.DeepEqual(value(t, want), value(t, got)) {
			t.Errorf("read\n%s\nof format 2, and\n%s\nof format 1", got, want)
		}
	}
}

func asJSON(t *testing.T, e *format.Entry) []byte {
	t.Helper()
	raw, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestAnEntryWithADroppedFieldIsRead: earlier builds of format 2 have written it.
func TestAnEntryWithADroppedFieldIsRead(t *testing.T) {
	e := &format.Entry{Session: "demo", Ordinal: 1, Step: 1, Final: true, Transition: &v1alpha1.TurnProgress{
		Plan: &v1alpha1.TurnPlan{Step: 2, Phase: v1alpha1.PlanPhaseReason},
	}}
	spec, err := format.Plain(e)
	if err != nil {
		t.Fatal(err)
	}
	raw := bytes.Replace(spec.Payload.Raw, []byte(`"step":2,`), []byte(`"step":2,"previousResponseID":"resp_1",`), 1)
	if bytes.Equal(raw, spec.Payload.Raw) {
		t.Fatalf("the field is not in %s", raw)
	}
	spec.Payload.Raw = raw
	read, err := format.Decode(spec)
	if err != nil || !reflect.DeepEqual(read.Transition, e.Transition) {
		t.Errorf("read %+v, %v", read, err)
	}
}

func TestARecordedJournalContinues(t *testing.T) {
	ctx, store, entries := t.Context(), memory.New(), recorded(t)
	s := journal.Session{Namespace: "ns", Name: "demo", UID: "5f0c6bb2-0b0a-4c3c-9d0e-2f4a5a1d7c11"}
	bytes := int64(0)
	for _, raw := range entries {
		spec, err := format.FromJSON(raw)
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Create(ctx, s, spec); err != nil {
			t.Fatal(err)
		}
		bytes += int64(len(raw))
	}
	head := int64(len(entries))
	view, err := journal.New(store, journal.Options{}).View(ctx, s, 0)
	if err != nil {
		t.Fatal(err)
	}
	if view.Head != head || view.Bytes != bytes || len(view.Messages) != 31 || len(view.Turns) != 32 ||
		view.Turns["steered"].SteeredInto.Name != "demo-2" {
		t.Errorf("head %d of %d, %d bytes of %d, %d messages, %d Turns", view.Head, head, view.Bytes, bytes,
			len(view.Messages), len(view.Turns))
	}
	first := journal.Turn{Name: "demo-1", UID: "bc7ccc6a-e803-4c59-9bcf-000000000001"}
	settled, err := journal.New(store, journal.Options{}).Settled(ctx, s, first.UID, 2, 5)
	if err != nil || len(settled) != 3 || settled[2].Call.Decision != v1alpha1.DecisionApprove {
		t.Errorf("the results of the first Turn: %+v, %v", settled, err)
	}
	next := journal.Turn{Name: "next", UID: "next-uid"}
	input := event.NewUserMessage("Go on.")
	f := event.NewFactory(event.Identity{Session: s.UID, Turn: next.UID}, nil)
	record := journal.Record{
		Turn:     next,
		Step:     1,
		OpenedAt: head + 1,
		Digest:   "d",
		Events:   []event.Event{f.InputMessage(input)},
	}
	if closed, err := journal.New(store, journal.Options{}).
		Append(ctx, s, record); err != nil ||
		closed.Ordinal != head+1 {
		t.Fatalf("closed %+v, %v", closed, err)
	}
	if view, err = journal.New(store, journal.Options{}).View(ctx, s, 0); err != nil || len(view.Messages) != 32 {
		t.Errorf("after it: %+v, %v", view, err)
	}
}
