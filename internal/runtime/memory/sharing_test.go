package memory_test

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/memory"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	objects "github.com/capstan-dev/capstan/internal/runtime/record/memory"
)

// hosted are Sessions by name.
type hosted map[string]*v1alpha1.Session

func (h hosted) Session(_ context.Context, _, name string) (*v1alpha1.Session, error) {
	return h[name], nil
}

// keeper is a Session whose own configuration of the capability this is.
func keeper(agent, config string) *v1alpha1.Session {
	s := &v1alpha1.Session{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "keeper", UID: "keeper-uid"}}
	s.Spec.Capabilities = []v1alpha1.CapabilityReference{{Builtin: "session_storage"}, {Builtin: "memory"}}
	if config != "" {
		s.Spec.Capabilities[1].Config = &v1alpha1.JSON{Raw: []byte(config)}
	}
	if agent != "" {
		s.Spec.AgentRef = &v1alpha1.LocalReference{Name: agent}
	}
	return s
}

// Rules: SVC-03.
func TestAMemoryIsSharedAsItsSessionStates(t *testing.T) {
	deleted := keeper("", `{"share":"Namespace"}`)
	deleted.DeletionTimestamp = &metav1.Time{Time: start}
	for name, tc := range map[string]struct {
		keeper *v1alpha1.Session
		agent  string
		shared bool
	}{
		"with the namespace":               {keeper("", `{"share":"Namespace"}`), "", true},
		"with its Agent":                   {keeper("planner", `{"share":"Agent"}`), "planner", true},
		"with another Agent":               {keeper("planner", `{"share":"Agent"}`), "writer", false},
		"with its Agent, by no Agent":      {keeper("", `{"share":"Agent"}`), "", false},
		"with its Agent, to no Agent":      {keeper("planner", `{"share":"Agent"}`), "", false},
		"with nothing":                     {keeper("planner", ""), "planner", false},
		"where it uses another one itself": {keeper("planner", `{"session":"demo"}`), "planner", false},
		"where it is being deleted":        {deleted, "", false},
		"where it does not exist":          {nil, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			host := hosted{}
			if tc.keeper != nil {
				host["keeper"] = tc.keeper
			}
			store := record.New(objects.New(), record.Options{})
			shared, err := memory.Shared(t.Context(), host, store, memory.Reader{Session: demo, Agent: tc.agent},
				memory.Config{Session: "keeper"})
			if (err == nil) != tc.shared {
				t.Fatalf("shared: %v", err)
			}
			if !tc.shared {
				if !strings.Contains(explained(err), `The session "keeper" does not exist, or does not share`) {
					t.Errorf("the error is %v", err)
				}
				return
			}
			cause := record.Cause{Step: 1, Key: "turn/1-0"}
			if _, err := shared.Create(t.Context(), cause, start, memory.Draft{Content: "the sky is blue"}); err != nil {
				t.Fatal(err)
			}
			kept := memory.Of(store, record.Session{Namespace: "team-a", Name: "keeper", UID: "keeper-uid"})
			if n, err := kept.Count(t.Context()); err != nil || n != 1 {
				t.Errorf("the Session that shares has %d memories: %v", n, err)
			}
			if n, err := memory.Of(store, demo).Count(t.Context()); err != nil || n != 0 {
				t.Errorf("the other Session has %d memories: %v", n, err)
			}
		})
	}
}

// The steps of different Sessions have no order: one with a low number may be repeated after changes in later ones.
//
// Rules: SVC-03.
func TestARepeatedChangeOfASharedMemoryIsCarriedOutOnce(t *testing.T) {
	store := record.New(objects.New(), record.Options{})
	host := hosted{"keeper": keeper("", `{"share":"Namespace"}`)}
	open := func(name string, c memory.Config) *memory.Memories {
		t.Helper()
		of := record.Session{Namespace: "team-a", Name: name, UID: types.UID(name + "-uid")}
		shared, err := memory.Shared(t.Context(), host, store, memory.Reader{Session: of}, c)
		if err != nil {
			t.Fatal(err)
		}
		return shared
	}
	own := open("keeper", memory.Config{Share: memory.ShareNamespace})
	first := open("one", memory.Config{Session: "keeper"})
	second := open("two", memory.Config{Session: "keeper"})
	create := func(m *memory.Memories, step int64, key string) string {
		t.Helper()
		created, err := m.Create(t.Context(), record.Cause{Step: step, Key: key}, start, memory.Draft{Content: key})
		if err != nil {
			t.Fatal(err)
		}
		return created.ID
	}
	forget := func(m *memory.Memories, step int64, key, id string) bool {
		t.Helper()
		was, err := m.Forget(t.Context(), record.Cause{Step: step, Key: key}, start.Add(time.Minute), id)
		if err != nil {
			t.Fatal(err)
		}
		return was
	}
	id := create(first, 3, "one/1-0")
	create(second, 900, "two/1-0")
	create(own, 50, "keeper/1-0")
	if again := create(first, 3, "one/1-0"); again != id {
		t.Errorf("the repeated call has created %s after %s", again, id)
	}
	if !forget(second, 901, "two/2-0", id) || forget(first, 4, "one/2-0", id) || !forget(second, 901, "two/2-0", id) {
		t.Error("a repeated call has another result")
	}
	if again := create(first, 3, "one/1-0"); again != id {
		t.Errorf("the repeated call has created %s after %s was forgotten", again, id)
	}
	if n, err := own.Count(t.Context()); err != nil || n != 2 {
		t.Errorf("there are %d memories: %v", n, err)
	}
}
