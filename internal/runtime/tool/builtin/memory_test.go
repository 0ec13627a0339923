package builtin

import (
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/memory"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	objects "github.com/capstan-dev/capstan/internal/runtime/record/memory"
)

// Rules: SVC-03.
func TestTheToolsForMemories(t *testing.T) {
	services := Services{Memories: memory.Of(record.New(objects.New(), record.Options{}),
		record.Session{Namespace: "default", Name: "demo", UID: "1"})}
	run := func(step int64, tool, arguments string) string {
		outcome := call(t, services, record.Cause{Step: step, Key: "turn/1-0"}, "memory", tool, arguments)
		if outcome.Result == nil {
			return "! " + outcome.Error
		}
		return *outcome.Result
	}
	if got := run(1, "recall_memories", `{}`); got != `{"memories":[],"matches":0,"active":0}` {
		t.Errorf("nothing is recalled as %s", got)
	}
	created := run(2, "create_memory", `{"content": "Köln <1> is the city.", "tags": ["City"], "kind": "preference"}`)
	id, _, _ := strings.Cut(strings.TrimPrefix(created, `{"id":"`), `"`)
	if created != `{"id":"`+id+`","kind":"preference"}` || !strings.HasPrefix(id, "mem-") {
		t.Fatalf("create_memory returns %s", created)
	}
	if again := run(2, "create_memory", `{"content": "another"}`); again != created {
		t.Errorf("a repeated call returns %s, want %s", again, created)
	}
	want := `{"memories":[{"id":"` + id + `","kind":"preference","content":"Köln <1> is the city.","tags":["city"],` +
		`"created_at":"` + noon.UTC().Format("2006-01-02T15:04:05Z") + `"}],"matches":1,"active":1}`
	if got := run(
		3,
		"recall_memories",
		`{"query": "köln", "kind": "preference", "tags": ["CITY"], "limit": 1}`,
	); got != want {
		t.Errorf("recalled is %s, want %s", got, want)
	}
	for n, want := range []string{`{"existed":true}`, `{"existed":false}`} {
		if got := run(int64(4+n), "forget_memory", `{"id": "`+id+`"}`); got != want {
			t.Errorf("forget_memory returns %s, want %s", got, want)
		}
	}
	if got := run(6, "create_memory", `{"content": " "}`); !strings.HasPrefix(got, "! The content has 1 bytes, is blank") {
		t.Errorf("a blank content: %s", got)
	}
}

// Rules: SVC-03.
func TestAModelIsToldWhoseMemoriesItUses(t *testing.T) {
	const shared = "Other sessions read and change these memories too"
	for config, want := range map[string]bool{"": false, `{"share":"Agent"}`: true, `{"session":"keeper"}`: true} {
		tools, err := Configured("memory", config)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(tools.Find("create_memory").Description, shared); got != want {
			t.Errorf("with the configuration %q the model is told %v", config, got)
		}
	}
}
