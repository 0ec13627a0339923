package memory_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/memory"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	objects "github.com/capstan-dev/capstan/internal/runtime/record/memory"
)

var (
	demo  = record.Session{Namespace: "team-a", Name: "demo", UID: "1"}
	start = time.Date(2031, 5, 4, 12, 0, 0, 0, time.UTC)
)

// desk has memories, and a cause and a time for each change.
type desk struct {
	t     *testing.T
	store record.Store
	of    *memory.Memories
	step  int64
}

func newDesk(t *testing.T) *desk {
	store := record.New(objects.New(), record.Options{})
	return &desk{t: t, store: store, of: memory.Of(store, demo)}
}

// next is the cause of a change of a step of its own.
func (d *desk) next() record.Cause {
	d.step++
	return record.Cause{Step: d.step, Key: "turn/1-0"}
}

func (d *desk) now() time.Time { return start.Add(time.Duration(d.step) * time.Minute) }

func (d *desk) create(draft memory.Draft) string {
	d.t.Helper()
	m, err := d.of.Create(d.t.Context(), d.next(), d.now(), draft)
	if err != nil {
		d.t.Fatal(err)
	}
	return m.ID
}

func (d *desk) forget(id string) bool {
	d.t.Helper()
	was, err := d.of.Forget(d.t.Context(), d.next(), d.now(), id)
	if err != nil {
		d.t.Fatal(err)
	}
	return was
}

// recall returns the contents that a query recalls.
func (d *desk) recall(q memory.Query) string {
	d.t.Helper()
	found, err := d.of.Recall(d.t.Context(), q)
	if err != nil {
		d.t.Fatal(err)
	}
	var contents []string
	for _, m := range found.Memories {
		contents = append(contents, m.Content)
	}
	return strings.Join(contents, "; ")
}

// explained is the text of an error that the model is shown; empty for none.
func explained(err error) string {
	var e *record.ExplainedError
	if errors.As(err, &e) {
		return e.Error()
	}
	return ""
}

// Rules: SVC-03.
func TestMemoriesAreRanked(t *testing.T) {
	d := newDesk(t)
	for _, draft := range []memory.Draft{
		{Content: "The database is PostgreSQL."},
		{Content: "Backups of the database run at night.", Tags: []string{"backup", "ops"}},
		{Content: "Ärger mit der Datenbank: neu starten.", Kind: memory.KindProcedure, Tags: []string{"Ops"}},
		{Content: "データベースは東京にあります", Kind: memory.KindContext},
		{Content: "a.*b (x|y)", Kind: memory.KindCorrection},
	} {
		d.create(draft)
	}
	for _, test := range []struct {
		query memory.Query
		want  string
	}{
		{memory.Query{Words: "DATABASE"}, "Backups of the database run at night.; The database is PostgreSQL."},
		{
			memory.Query{Words: "postgresql database"},
			"The database is PostgreSQL.; Backups of the database run at night.",
		},
		{memory.Query{Words: "base"}, "Backups of the database run at night.; The database is PostgreSQL."},
		{memory.Query{Words: "backup"}, "Backups of the database run at night."},
		{memory.Query{Words: "ÄRGER"}, "Ärger mit der Datenbank: neu starten."},
		{memory.Query{Words: "東京"}, "データベースは東京にあります"},
		{memory.Query{Words: "da"}, ""},
		{memory.Query{Words: "nothing"}, ""},
		{memory.Query{Words: ".*a.*"}, "a.*b (x|y)"},
		{memory.Query{Tags: []string{"OPS"}}, "Ärger mit der Datenbank: neu starten.; Backups of the database run at night."},
		{memory.Query{Tags: []string{"ops", "backup"}}, "Backups of the database run at night."},
		{memory.Query{Tags: []string{"ops"}, Kind: memory.KindFact}, "Backups of the database run at night."},
		{memory.Query{Most: 1}, "a.*b (x|y)"},
	} {
		for range 3 {
			if got := d.recall(test.query); got != test.want {
				t.Errorf("%+v recalls %q, want %q", test.query, got, test.want)
			}
		}
	}
}

// Rules: SVC-03.
func TestMemoriesAreBounded(t *testing.T) {
	d := newDesk(t)
	id := d.create(memory.Draft{Content: strings.Repeat("語", memory.MaxContentCharacters)})
	tags := make([]string, memory.MaxTags+1)
	for n := range tags {
		tags[n] = fmt.Sprintf("tag %d", n)
	}
	d.create(memory.Draft{Content: "a", Tags: tags[1:]})
	for name, draft := range map[string]memory.Draft{
		"long":         {Content: strings.Repeat("x", memory.MaxContentCharacters+1)},
		"blank":        {Content: " \n"},
		"not UTF-8":    {Content: "\xff"},
		"kind":         {Content: "a", Kind: "Fact"},
		"tags":         {Content: "a", Tags: tags},
		"long tag":     {Content: "a", Tags: []string{strings.Repeat("t", memory.MaxTagCharacters+1)}},
		"empty tag":    {Content: "a", Tags: []string{" "}},
		"control tag":  {Content: "a", Tags: []string{"a\x1b[31m"}},
		"tag of bytes": {Content: "a", Tags: []string{"\xff"}},
	} {
		if _, err := d.of.Create(t.Context(), d.next(), d.now(), draft); explained(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, q := range map[string]memory.Query{
		"long": {Words: strings.Repeat("x", memory.MaxQueryCharacters+1)}, "not UTF-8": {Words: "\xff"},
		"no words": {Words: ".*"}, "kind": {Kind: "all"}, "tags": {Tags: tags}, "limit": {Most: memory.MaxRecalled + 1},
		"negative": {Most: -1},
	} {
		if _, err := d.of.Recall(t.Context(), q); explained(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, wrong := range []string{"", "part/00", id + "0", strings.ToUpper(id), "mem-../../../../00"} {
		if was, err := d.of.Forget(t.Context(), d.next(), d.now(), wrong); was || err != nil {
			t.Errorf("forgetting %q: %v, %v", wrong, was, err)
		}
		if m, err := d.of.Get(t.Context(), wrong); m != nil || err != nil {
			t.Errorf("getting %q: %+v, %v", wrong, m, err)
		}
	}
	if n, err := d.of.Count(t.Context()); n != 2 || err != nil {
		t.Errorf("there are %d memories, %v", n, err)
	}
}

// Rules: SVC-03.
func TestAStoreHasRoomForItsMemories(t *testing.T) {
	d := newDesk(t)
	large := strings.Repeat("語", memory.MaxContentCharacters)
	var ids []string
	for {
		m, err := d.of.Create(t.Context(), d.next(), d.now(), memory.Draft{Content: large})
		if err != nil {
			if !strings.Contains(explained(err), "full") {
				t.Fatal(err)
			}
			break
		}
		ids = append(ids, m.ID)
	}
	if least := memory.MaxBytes / (3*memory.MaxContentCharacters + 200); len(ids) < least {
		t.Errorf("%d memories of the largest size have room, want %d", len(ids), least)
	}
	d.forget(ids[0])
	d.create(memory.Draft{Content: large})
	if got := len(d.recall(memory.Query{Words: "語", Most: memory.MaxRecalled})); got > 64<<10 {
		t.Errorf("a recall returns %d bytes", got)
	}
}

// Rules: SVC-03.
func TestTheNumberOfMemoriesIsBounded(t *testing.T) {
	d := newDesk(t)
	d.fill(memory.MaxActive)
	if _, err := d.of.Create(t.Context(), d.next(), d.now(), memory.Draft{Content: "one more"}); !strings.Contains(
		explained(err), "full") {
		t.Errorf("one more memory: %v", err)
	}
	found, err := d.of.Recall(t.Context(), memory.Query{Words: "number 4711"})
	if err != nil || found.Matches != memory.MaxActive || found.Memories[0].Content != "number 4711" {
		t.Errorf("recalled are %+v of %d, %v", found.Memories[0], found.Matches, err)
	}
}

// Of those that are forgotten the newest stay, and each for an hour.
//
// Rules: SVC-03.
func TestForgottenMemoriesMakeRoom(t *testing.T) {
	d := newDesk(t)
	ids := slices.DeleteFunc(d.fill(10_000), func(id string) bool { return partOf(id) != "part/07" })
	if len(ids) < 140 {
		t.Fatalf("the part has %d memories", len(ids))
	}
	for _, id := range ids {
		d.forget(id)
	}
	all := d.list(true)
	kept := map[string]bool{}
	for _, m := range all {
		kept[m.ID] = true
	}
	if forgotten := len(all) - 10_000 + len(ids); forgotten != 60+64+1 {
		t.Errorf("%d forgotten memories are kept", forgotten)
	}
	for _, id := range ids[len(ids)-60:] {
		if !kept[id] {
			t.Errorf("%s was forgotten in the last hour and is not kept", id)
		}
	}
	if active := d.list(false); len(active) != 10_000-len(ids) {
		t.Errorf("%d are active", len(active))
	}
}

// Rules: SVC-03.
func TestASessionHasItsOwnMemories(t *testing.T) {
	d := newDesk(t)
	id := d.create(memory.Draft{Content: "mine"})
	for _, other := range []record.Session{
		{Namespace: "team-a", Name: "demo", UID: "2"},
		{Namespace: "team-a", Name: "other", UID: "3"},
		{Namespace: "team-b", Name: "demo", UID: "4"},
	} {
		of := memory.Of(d.store, other)
		if found, err := of.Recall(t.Context(), memory.Query{}); len(found.Memories) != 0 || err != nil {
			t.Errorf("%+v recalls %+v, %v", other, found, err)
		}
		if m, err := of.Get(t.Context(), id); m != nil || err != nil {
			t.Errorf("%+v reads %+v, %v", other, m, err)
		}
		if was, err := of.Forget(t.Context(), record.Cause{Step: 1, Key: "c"}, start, id); was || err != nil {
			t.Errorf("%+v forgets: %v, %v", other, was, err)
		}
	}
	if got := d.recall(memory.Query{}); got != "mine" {
		t.Errorf("the memories are %q", got)
	}
}

// Rules: SVC-03.
func TestAnOvertakenProcessChangesNoMemory(t *testing.T) {
	d := newDesk(t)
	early := d.next()
	id := d.create(memory.Draft{Content: "of a later step"})
	if _, err := d.of.Create(
		t.Context(),
		early,
		d.now(),
		memory.Draft{Content: "late"},
	); !errors.Is(
		err,
		record.ErrStale,
	) {
		t.Errorf("creating: %v", err)
	}
	if _, err := d.of.Forget(t.Context(), early, d.now(), id); !errors.Is(err, record.ErrStale) {
		t.Errorf("forgetting: %v", err)
	}
	if _, err := d.of.Create(t.Context(), record.Cause{}, d.now(), memory.Draft{Content: "a"}); err == nil {
		t.Error("a memory without a cause is created")
	}
	if !slices.Contains([]string{"of a later step"}, d.recall(memory.Query{})) {
		t.Errorf("the memories are %q", d.recall(memory.Query{}))
	}
}

func FuzzMemories(f *testing.F) {
	for _, text := range []string{"", "a", "a.*b", "\xff", "İ ß ǅ", "東京 タワー", "\u0301\u200d", "a\x00b", "\U0010ffff"} {
		f.Add(text, text, text)
	}
	f.Fuzz(func(t *testing.T, content, tag, query string) {
		d := newDesk(t)
		_, err := d.of.Create(t.Context(), d.next(), d.now(), memory.Draft{Content: content, Tags: []string{tag}})
		if err != nil && explained(err) == "" {
			t.Fatalf("%q: %v", content, err)
		}
		found, recallErr := d.of.Recall(t.Context(), memory.Query{Words: query})
		if recallErr != nil && explained(recallErr) == "" {
			t.Fatalf("%q: %v", query, recallErr)
		}
		if err == nil && recallErr == nil && query == "" && (len(found.Memories) != 1 ||
			found.Memories[0].Content != content) {
			t.Fatalf("%q is recalled as %+v", content, found)
		}
	})
}

// list reads all pages, and checks that they are one list, newest first.
func (d *desk) list(withForgotten bool) []stream.Memory {
	d.t.Helper()
	var all []stream.Memory
	for after, more := "", true; more; after = all[len(all)-1].ID {
		page, err := d.of.Page(d.t.Context(), withForgotten, after)
		if err != nil {
			d.t.Fatal(err)
		}
		if more = page.More; more && len(page.Items) != 200 {
			d.t.Fatalf("a page has %d memories, and more follow", len(page.Items))
		}
		if all = append(all, page.Items...); len(all) == 0 {
			break
		}
	}
	seen := map[string]bool{}
	for _, m := range all {
		seen[m.ID] = true
	}
	if len(seen) != len(all) {
		d.t.Fatalf("the pages have %d memories, %d different ones", len(all), len(seen))
	}
	return all
}

// Rules: SVC-03.
func TestAListGoesOnBehindAMemoryThatIsForgottenMeanwhile(t *testing.T) {
	d := newDesk(t)
	d.fill(300)
	first, err := d.of.Page(t.Context(), false, "")
	if err != nil || len(first.Items) != 200 || !first.More {
		t.Fatalf("the first page has %d memories, more: %v (%v)", len(first.Items), first.More, err)
	}
	last := first.Items[199].ID
	if !d.forget(last) || d.forget(last) {
		t.Error("a memory is forgotten once")
	}
	second, err := d.of.Page(t.Context(), false, last)
	if err != nil || len(second.Items) != 100 || second.More {
		t.Errorf("the second page has %d memories, more: %v (%v)", len(second.Items), second.More, err)
	}
	if _, err := d.of.Page(t.Context(), false, "mem-ffffffffffffffff"); explained(err) == "" {
		t.Errorf("behind an unknown memory: %v", err)
	}
	// A person forgets without a cause.
	forget := func(id string) bool {
		was, err := d.of.Forget(t.Context(), record.Cause{}, d.now(), id)
		if err != nil {
			t.Fatal(err)
		}
		return was
	}
	if !forget(first.Items[0].ID) || forget(first.Items[0].ID) {
		t.Error("a person forgets a memory once")
	}
}
