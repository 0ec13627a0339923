package check

import (
	"github.com/capstan-dev/capstan/internal/runtime/credential"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/runtime/hook/bash"
	"github.com/capstan-dev/capstan/internal/runtime/hook/webhook"
)

// Executors returns the executors of all kinds. Scripts do not run without processes.
func Executors(
	client *egress.Client, secrets credential.Reader, processes bash.Processes,
) (hook.Executors, error) {
	expressions, err := Expressions()
	if err != nil {
		return hook.Executors{}, err
	}
	all := hook.Executors{CEL: expressions, Webhook: &webhook.Executor{Egress: client, Secrets: secrets}}
	if processes != nil {
		all.Bash = &bash.Executor{Processes: processes}
	}
	return all, nil
}
