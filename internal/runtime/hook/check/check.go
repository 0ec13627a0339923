// Package check finds out whether hooks can run, before they do: it compiles what an executor compiles. It keeps the
// results, because the layers of a Session are read in every pass.
package check

import (
	"context"
	"fmt"
	"sync"

	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/runtime/hook/bash/shell"
	"github.com/capstan-dev/capstan/internal/runtime/hook/cache"
	"github.com/capstan-dev/capstan/internal/runtime/hook/cel"
	"github.com/capstan-dev/capstan/internal/runtime/hook/webhook"
)

// expressions compiles expressions for all Sessions of the process.
var expressions = sync.OnceValues(cel.New)

// Expressions is the executor of expressions. It keeps what it has compiled, for all Sessions of the process.
func Expressions() (*cel.Executor, error) {
	return expressions()
}

// maxScriptBytes is the most memory of scripts that are known to be valid or not.
const maxScriptBytes = 8 << 20

var scripts = cache.New[invalid](maxScriptBytes)

// Hook returns why a hook of a namespace cannot run; nil if it can. With a context that ends it returns that.
func Hook(ctx context.Context, namespace string, s *hook.Spec) error {
	if err := s.Validate(); err != nil {
		return err
	}
	switch s.Kind() {
	case hook.KindBash:
		return script(ctx, namespace, s.Bash.Command)
	case hook.KindCEL:
		executor, err := Expressions()
		if err != nil {
			return err
		}
		return executor.Check(ctx, namespace, s.CEL.Expression)
	case hook.KindWebhook:
		return webhook.Check(s.Webhook)
	default:
		return fmt.Errorf("no executor for hooks of kind %q", s.Kind())
	}
}

// invalid is why a script cannot run.
type invalid struct{ err error }

func script(ctx context.Context, namespace, command string) error {
	known, err := scripts.Of(ctx, namespace, command, func(text string) (invalid, int64) {
		err := shell.Check(text)
		if err == nil {
			return invalid{}, 0
		}
		return invalid{err}, int64(len(err.Error()))
	})
	if err != nil {
		return err
	}
	return known.err
}
