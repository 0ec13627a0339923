// Package check finds out whether hooks can run, before they do: it compiles what an executor compiles. It keeps the
// results, because the layers of a Session are read in every pass.
package check

import (
	"sync"

	"k8s.io/utils/lru"

	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/runtime/hook/bash/shell"
	"github.com/capstan-dev/capstan/internal/runtime/hook/cel"
	"github.com/capstan-dev/capstan/internal/runtime/hook/webhook"
)

// expressions compiles expressions for all Sessions of the process.
var expressions = sync.OnceValues(cel.New)

// Expressions is the executor of expressions. It keeps what it has compiled, for all Sessions of the process.
func Expressions() (*cel.Executor, error) {
	return expressions()
}

// maxScripts is how many scripts are known at a time to be valid or not.
const maxScripts = 256

var (
	scripts = lru.New(maxScripts)
	// parsing makes one script after the other wait: a nested one takes some memory.
	parsing sync.Mutex
)

// Hook returns why a hook cannot run; nil if it can.
func Hook(s *hook.Spec) error {
	if err := s.Validate(); err != nil {
		return err
	}
	switch {
	case s.Bash != nil:
		return script(s.Bash.Command)
	case s.CEL != nil:
		executor, err := Expressions()
		if err != nil {
			return err
		}
		return executor.Check(s.CEL.Expression)
	default:
		return webhook.Check(s.Webhook)
	}
}

// invalid is why a script cannot run.
type invalid struct{ err error }

func script(command string) error {
	if kept, ok := scripts.Get(command); ok {
		return kept.(invalid).err //nolint:forcetypeassert // Only this function adds to the cache.
	}
	parsing.Lock()
	defer parsing.Unlock()
	err := shell.Check(command)
	scripts.Add(command, invalid{err})
	return err
}
