package command

import (
	"context"
	"io"

	"github.com/capstan-dev/capstan/internal/cli/outcome"
)

// readInput reads at most one byte more than a limit. Nothing can interrupt a read of a terminal or a pipe, so that one
// is left to the end of the program when the user interrupts.
func readInput(ctx context.Context, in io.Reader, limit int64) ([]byte, error) {
	type read struct {
		content []byte
		err     error
	}
	done := make(chan read, 1)
	go func() {
		content, err := io.ReadAll(io.LimitReader(in, limit+1))
		done <- read{content, err}
	}()
	select {
	case r := <-done:
		return r.content, r.err
	case <-ctx.Done():
		return nil, &outcome.Error{Code: outcome.Interrupted}
	}
}
