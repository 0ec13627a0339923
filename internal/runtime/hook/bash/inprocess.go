package bash

import (
	"context"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/hook/bash/shell"
)

// InProcess runs scripts in this process, for tests of agents: they have the files and commands that they have
// elsewhere, but no bound of memory. It is not for the scripts of tenants.
type InProcess struct{}

// Run implements Processes.
func (InProcess) Run(
	ctx context.Context, _ string, timeout time.Duration, r shell.Request, session shell.Source,
) (*shell.Result, error) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	result, err := shell.Run(limited, r, session)
	if err != nil && limited.Err() != nil {
		return nil, timedOut(timeout)
	}
	return result, err
}
