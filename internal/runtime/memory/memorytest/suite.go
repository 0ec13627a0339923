// Package memorytest has the tests of memories that pass on every backend of records.
package memorytest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/runtime/memory"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/record/recordtest"
)

var start = time.Date(2031, 5, 4, 12, 0, 0, 0, time.UTC)

// Run is the suite that every backend passes. newObjects is called once per test.
func Run(t *testing.T, newObjects func(t *testing.T) record.Objects) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, objects record.Objects, of *memory.Memories)
	}{
		{"MemoriesAreCreatedRecalledAndForgotten", created},
		{"AChangeHappensOnceWhateverFails", once},
		{"ConcurrentChangesAllSucceed", concurrent},
		{"ManyMemoriesAreKeptInParts", many},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			objects := newObjects(t)
			test.run(t, objects, over(objects, session()))
		})
	}
}

// session is a Session of its own.
func session() record.Session {
	id := uuid.NewString()
	return record.Session{Namespace: "default", Name: "s-" + id[:8], UID: types.UID(id)}
}

// over returns the memories of a Session in a process of their own.
func over(objects record.Objects, of record.Session) *memory.Memories {
	return memory.Of(record.New(objects, record.Options{}), of)
}

func causeOf(step int64) record.Cause {
	return record.Cause{Step: step, Key: fmt.Sprintf("turn/%d-0", step)}
}

func create(t *testing.T, of *memory.Memories, step int64, draft memory.Draft) string {
	t.Helper()
	m, err := of.Create(t.Context(), causeOf(step), start.Add(time.Duration(step)*time.Second), draft)
	if err != nil {
		t.Fatal(err)
	}
	return m.ID
}

// expect checks the contents that a query recalls, in their order.
func expect(t *testing.T, of *memory.Memories, q memory.Query, want ...string) {
	t.Helper()
	found, err := of.Recall(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range found.Memories {
		got = append(got, m.Content)
	}
	if strings.Join(got, "; ") != strings.Join(want, "; ") || found.Matches < len(want) {
		t.Errorf("%+v recalls %q of %d, want %q", q, got, found.Matches, want)
	}
}

func created(t *testing.T, _ record.Objects, of *memory.Memories) {
	expect(t, of, memory.Query{})
	first := create(t, of, 1, memory.Draft{Content: "Deploys go out on Tuesday.", Tags: []string{"Deploy", "deploy"}})
	create(t, of, 2, memory.Draft{Kind: memory.KindPreference, Content: "Answers are short."})
	create(t, of, 3, memory.Draft{Kind: memory.KindProcedure, Content: "To deploy, tag and push."})
	expect(t, of, memory.Query{}, "To deploy, tag and push.", "Answers are short.", "Deploys go out on Tuesday.")
	expect(t, of, memory.Query{Words: "deploy on tuesday"}, "Deploys go out on Tuesday.", "To deploy, tag and push.")
	expect(t, of, memory.Query{Tags: []string{"DEPLOY"}}, "Deploys go out on Tuesday.")
	expect(t, of, memory.Query{Kind: memory.KindPreference}, "Answers are short.")
	for _, want := range []bool{true, false} {
		was, err := of.Forget(t.Context(), causeOf(map[bool]int64{true: 4, false: 5}[want]), start.Add(time.Minute), first)
		if was != want || err != nil {
			t.Errorf("forgetting returns %v, %v; want %v", was, err, want)
		}
	}
	expect(t, of, memory.Query{Words: "deploy tuesday"}, "To deploy, tag and push.")
	if n, err := of.Count(t.Context()); n != 2 || err != nil {
		t.Errorf("there are %d active memories, %v", n, err)
	}
	m, err := of.Get(t.Context(), first)
	if err != nil || m == nil || m.Forgotten == nil || !m.Forgotten.Equal(start.Add(time.Minute)) ||
		m.Content != "Deploys go out on Tuesday." || len(m.Tags) != 1 {
		t.Errorf("the memory that was forgotten is %+v, %v", m, err)
	}
	if m, err := of.Get(t.Context(), "mem-0123456789abcdef"); m != nil || err != nil {
		t.Errorf("a memory that was never created is %+v, %v", m, err)
	}
}

func once(t *testing.T, objects record.Objects, _ *memory.Memories) {
	for fault := range 2 { // creating and forgetting are one write each
		of := session()
		for range 2 { // the process, and the one that takes its place
			m := over(recordtest.Lossy(objects, fault+1), of)
			id := create(t, m, 1, memory.Draft{Content: "one"})
			was, err := m.Forget(t.Context(), record.Cause{Step: 1, Key: "turn/1-1"}, start, id)
			if err != nil || !was {
				t.Fatalf("forgetting returns %v, %v", was, err)
			}
		}
		found, err := over(objects, of).Page(t.Context(), true, "")
		if err != nil || len(found.Items) != 1 || found.Items[0].ForgottenAt == nil {
			t.Errorf("there are %+v, %v", found, err)
		}
	}
}

func concurrent(t *testing.T, _ record.Objects, of *memory.Memories) {
	const writers = 12
	var all sync.WaitGroup
	for n := range writers {
		all.Go(func() {
			cause := record.Cause{Step: 1, Key: fmt.Sprintf("turn/1-%d", n)}
			_, err := of.Create(t.Context(), cause, start, memory.Draft{Content: fmt.Sprintf("number %d", n)})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n, err := of.Count(t.Context()); n != writers || err != nil {
		t.Errorf("there are %d memories, %v", n, err)
	}
}

func many(t *testing.T, _ record.Objects, of *memory.Memories) {
	const count = 40
	long := strings.Repeat("ä", memory.MaxContentCharacters-len("needle 00 "))
	for n := range count {
		create(t, of, int64(n+1), memory.Draft{Content: fmt.Sprintf("needle %02d %s", n, long)})
	}
	found, err := of.Recall(t.Context(), memory.Query{Words: "needle", Most: memory.MaxRecalled})
	if err != nil || found.Matches != count || found.Active != count || len(found.Memories) == 0 ||
		len(found.Memories) >= count || !strings.HasPrefix(found.Memories[0].Content, "needle 39 ") {
		t.Fatalf("recalled are %d of %d, %v", len(found.Memories), found.Matches, err)
	}
	exact, err := of.Recall(t.Context(), memory.Query{Words: "07"})
	if err != nil || exact.Matches != 1 || !strings.HasPrefix(exact.Memories[0].Content, "needle 07 ") {
		t.Errorf("recalled is %+v, %v", exact, err)
	}
}
