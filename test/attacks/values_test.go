package attacks_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/record/memory"
	"github.com/capstan-dev/capstan/internal/runtime/storage"
	"github.com/capstan-dev/capstan/internal/runtime/tool/builtin"
)

// values are calls of the tools for values, with arguments that a model has written.
func values(t *testing.T) subject {
	store := record.New(memory.New(), record.Options{})
	of := func(namespace string) *storage.Storage {
		return storage.Of(store, record.Session{
			Namespace: namespace, Name: "s", UID: types.UID("uid-" + namespace),
		})
	}
	var calls atomic.Int64
	call := func(ctx context.Context, values *storage.Storage, name, arguments string) string {
		return builtinCall(ctx, t, "session_storage", name, builtin.Call{
			Arguments: arguments, Services: builtin.Services{Storage: values},
			Cause: record.Cause{Step: calls.Add(1), Key: "turn/1-0"},
		})
	}
	mine, theirs := of(attacker), of(bystander)
	if _, err := theirs.Set(t.Context(), record.Cause{Step: 1, Key: "c"}, "token", tokenSecret); err != nil {
		t.Fatal(err)
	}
	attempts := func(name string, all ...[2]string) class {
		c := class{name: name, refused: true}
		for _, a := range all {
			c.attempts = append(c.attempts, attempt{name: a[0] + " " + a[1], run: func(ctx context.Context) string {
				return call(ctx, mine, a[0], a[1])
			}})
		}
		return c
	}
	get := func(key string) [2]string { return [2]string{"get_value", fmt.Sprintf(`{"key":%q}`, key)} }
	set := func(key string) [2]string { return [2]string{"set_value", `{"key":"` + key + `","value":"x"}`} }
	return subject{
		name: "Values of a Session",
		classes: []class{
			attempts("the values of another Session", get("token"), get("../token"), get("value/token"),
				get("secret://token"), get("*")),
			attempts("the store of another Session", get("../../uid-"+bystander+"/storage/value/token"),
				get(bystander+"/s/token"), get("storage:token"), get("/token")),
			attempts("keys and values", set(`a\u0000b`), set(`a\u001b]0;b`), set(`a\u0085b`),
				set(strings.Repeat("k", 257)),
				[2]string{"set_value", `{"key":"a","value":"` + strings.Repeat("x", 65<<10) + `"}`}),
		},
		other: func(ctx context.Context) error {
			if seen := call(ctx, theirs, "get_value", `{"key":"token"}`); !strings.Contains(seen, tokenSecret) {
				return errors.New(seen)
			}
			return nil
		},
		after: func(t *testing.T) {
			if seen := call(t.Context(), mine, "list_values", `{}`); !strings.Contains(seen, `"values":[]`) {
				t.Errorf("the attempts have left %s", seen)
			}
		},
	}
}
