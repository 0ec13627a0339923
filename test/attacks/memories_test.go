package attacks_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/runtime/memory"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	records "github.com/capstan-dev/capstan/internal/runtime/record/memory"
	"github.com/capstan-dev/capstan/internal/runtime/tool/builtin"
)

// memories are calls of the tools for memories, with arguments that a model has written.
func memories(t *testing.T) subject {
	store := record.New(records.New(), record.Options{})
	of := func(namespace, name string) *memory.Memories {
		return memory.Of(store, record.Session{
			Namespace: namespace, Name: name, UID: types.UID("uid-" + namespace + "-" + name),
		})
	}
	var calls atomic.Int64
	call := func(ctx context.Context, of *memory.Memories, name, arguments string) string {
		return builtinCall(ctx, t, "memory", name, builtin.Call{
			Arguments: arguments, Services: builtin.Services{Memories: of},
			Cause: record.Cause{Step: calls.Add(1), Key: "turn/1-0"},
		})
	}
	mine := of(attacker, "s")
	foreign := map[string]*memory.Memories{"Session": of(attacker, "other"), "namespace": of(bystander, "s")}
	ids := map[string]string{}
	for name, theirs := range foreign {
		m, err := theirs.Create(t.Context(), record.Cause{Step: 1, Key: "turn/" + name}, time.Now(),
			memory.Draft{Content: tokenSecret, Tags: []string{"token"}})
		if err != nil {
			t.Fatal(err)
		}
		ids[name] = m.ID
	}
	attempts := func(name string, refused bool, want string, all ...[2]string) class {
		c := class{name: name, refused: refused}
		for _, a := range all {
			c.attempts = append(c.attempts, attempt{
				name: a[0] + " " + a[1], want: want,
				run: func(ctx context.Context) string { return call(ctx, mine, a[0], a[1]) },
			})
		}
		return c
	}
	recall := func(arguments string) [2]string { return [2]string{"recall_memories", arguments} }
	create := func(arguments string) [2]string { return [2]string{"create_memory", arguments} }
	forget := func(id string) [2]string { return [2]string{"forget_memory", fmt.Sprintf(`{"id":%q}`, id)} }
	long := strings.Repeat("(a+)+$", 83)
	return subject{
		name: "Memories of a Session",
		classes: []class{
			attempts("the memories of others", false, `"matches":0`, recall(`{}`), recall(`{"query":"token s3cret"}`),
				recall(`{"tags":["token"]}`), recall(`{"query":"`+bystander+`/s/memory"}`), recall(`{"limit":50}`)),
			attempts("a memory of others, to be forgotten", false, `"existed":false`, forget(ids["Session"]),
				forget(ids["namespace"]), forget("part/00"), forget("../uid-"+bystander+"-s/memory"), forget("*")),
			attempts("queries like patterns", false, `"matches":0`, recall(`{"query":"`+long+`"}`),
				recall(`{"query":"s3cret.* OR 1=1 --"}`), recall(`{"query":"%token_"}`),
				recall(`{"query":"\u0000token\u0000"}`)),
			attempts("queries without words", true, "", recall(`{"query":".*"}`), recall(`{"query":"%' --"}`),
				recall(`{"query":"`+strings.Repeat("x", 501)+`"}`), recall(`{"limit":1000000}`),
				recall(`{"kind":"all"}`)),
			attempts("contents", true, "", create(`{"content":"`+strings.Repeat("x", 2001)+`"}`),
				create(`{"content":"`+strings.Repeat("x", 4<<20)+`"}`), create(`{"content":" \n"}`),
				create(`{"content":"a","kind":"system"}`), create(`{"content":"a","session":"other"}`)),
			attempts("tags", true, "", create(`{"content":"a","tags":["`+strings.Repeat(`t","`, 10)+`t"]}`),
				create(`{"content":"a","tags":["`+strings.Repeat("t", 51)+`"]}`), create(`{"content":"a","tags":[""]}`),
				create(`{"content":"a","tags":["a\u001b[31m"]}`), create(`{"content":"a","tags":["a\u0000"]}`)),
		},
		other: func(ctx context.Context) error {
			for name, theirs := range foreign {
				if seen := call(ctx, theirs, "recall_memories", `{"query":"token"}`); !strings.Contains(seen, ids[name]) {
					return errors.New(seen)
				}
			}
			return nil
		},
		after: func(t *testing.T) {
			if n, err := mine.Count(t.Context()); n != 0 || err != nil {
				t.Errorf("the attempts have left %d memories, %v", n, err)
			}
		},
	}
}
