package command

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/internal/cli/outcome"
	"github.com/capstan-dev/capstan/internal/cli/text"
)

// TestInterruptedInput: Ctrl-C ends a command that waits for its standard input.
func TestInterruptedInput(t *testing.T) {
	in, writer := io.Pipe()
	defer func() { _ = writer.Close() }() // A pipe has no error to report.
	ended := make(chan int, 2)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		var out bytes.Buffer
		ended <- Main(ctx, []string{"ask", "demo", "--file", "-"}, in, &out, &out)
	}()
	go func() {
		var out bytes.Buffer
		p := &program{in: in, out: text.Printer{Out: &out}, err: text.Printer{Out: &out}}
		_, err := p.content(ctx, reply{file: "-"})
		ended <- p.exit(err)
	}()
	cancel()
	for range 2 {
		select {
		case code := <-ended:
			if code != outcome.Interrupted {
				t.Errorf("the exit code is %d", code)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("the command waits for its input")
		}
	}
}
