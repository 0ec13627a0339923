package sqlite

import (
	"context"
	"io"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/runner"
	"github.com/capstan-dev/capstan/internal/runtime/sessiondb/sqlcall"
)

// Program runs one call in a process of a runner.Pool.
var Program = runner.Program{Name: sqlcall.ProgramName, Warm: warm, Serve: serve}

// warm runs a call of its own: the first use of the engine in a process takes longer than the others.
func warm() {
	_, _, _ = Run(context.Background(), sqlcall.Request{Mode: sqlcall.Query, SQL: "SELECT 1", TimeoutMillis: 1000}, nil)
}

func serve(in io.Reader, out io.Writer) error {
	return sqlcall.Serve(in, out,
		func(r sqlcall.Request, file sqlcall.Source) (*sqlcall.Result, []sqlcall.Chunk, error) {
			return Run(context.Background(), r, file)
		})
}

// InProcess runs calls in this process, for tests of agents: SQL has the limits that it has elsewhere, but no process
// of its own. It is not for the SQL of tenants.
type InProcess struct{}

// Run implements sessiondb.Processes.
func (InProcess) Run(
	ctx context.Context, _ string, timeout time.Duration, r sqlcall.Request, file sqlcall.Source,
) (*sqlcall.Result, []sqlcall.Chunk, error) {
	r.TimeoutMillis = timeout.Milliseconds()
	return Run(ctx, r, file)
}
