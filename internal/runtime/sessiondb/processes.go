package sessiondb

import (
	"context"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/runner"
	"github.com/capstan-dev/capstan/internal/runtime/sessiondb/sqlcall"
)

// Processes run calls: Confined, and sqlite.InProcess in tests.
type Processes interface {
	// Run runs a call of a namespace on a file. The timeout begins when it has a process. The error is an *Error, one of
	// the file, or one of package runner. Nothing has changed after an error.
	Run(ctx context.Context, namespace string, timeout time.Duration, r sqlcall.Request, file sqlcall.Source) (
		*sqlcall.Result, []sqlcall.Chunk, error)
}

// Confined runs calls in the processes of a Pool.
type Confined struct {
	// Pool has the processes.
	Pool *runner.Pool
}

// Run implements Processes.
func (p Confined) Run(
	ctx context.Context, namespace string, timeout time.Duration, r sqlcall.Request, file sqlcall.Source,
) (result *sqlcall.Result, chunks []sqlcall.Chunk, err error) {
	r.TimeoutMillis = timeout.Milliseconds()
	err = p.Pool.Run(ctx, namespace, timeout, sqlcall.ProgramName, func(ctx context.Context, c runner.Conn) error {
		result, chunks, err = sqlcall.Talk(ctx, c, r, file)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return result, chunks, nil
}
