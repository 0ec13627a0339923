package command

import (
	"os"

	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/follow"
	"github.com/capstan-dev/capstan/internal/cli/pending"
	"github.com/capstan-dev/capstan/internal/cli/tail"
	"github.com/capstan-dev/capstan/internal/cli/text"
	"github.com/capstan-dev/capstan/internal/cli/transcript"
	"github.com/capstan-dev/capstan/internal/runtime/event"
)

// maxOutputLines bounds the lines of output of running tools, also to half of the terminal.
const maxOutputLines = 6

// running shows the last lines that running tools have written, at the end of a terminal. Nil shows nothing.
type running struct {
	region *text.Region
	tail   tail.Tail
	// turn is that of the calls in tail.
	turn types.UID
	// size returns the columns and the rows of the terminal.
	size func() (columns, rows int)
}

// view returns a view that shows the output of running tools if it is printed to a terminal.
func (p *program) view(command pending.Command, o transcript.Options) *view {
	v := newView(p.out, command, o)
	if file, ok := p.out.Out.(*os.File); ok && isTerminal(file) && os.Getenv("TERM") != "dumb" {
		if p.region == nil {
			p.region = &text.Region{Printer: p.out}
		}
		v.running = &running{region: p.region, size: func() (int, int) {
			columns, rows, err := term.GetSize(int(file.Fd()))
			if err != nil || columns <= 0 || rows <= 0 {
				return 80, 24
			}
			return columns, rows
		}}
	}
	return v
}

// add adds a piece of output. The ids of calls are those of one Turn: what is left of another one, which was deleted
// for example, is dropped.
func (r *running) add(o follow.Output) {
	if r == nil {
		return
	}
	if o.Turn != r.turn {
		r.tail.Reset()
		r.turn = o.Turn
	}
	r.tail.Add(o.ToolOutputDelta)
}

// follow drops the output of calls that run no more, according to the status of their Turn.
func (r *running) follow(turn *v1alpha1.Turn) {
	switch {
	case r == nil:
	case pending.Ended(turn):
		r.tail.Reset()
	default:
		for _, call := range turn.Status.ToolCalls {
			if call.State.Settled() {
				r.tail.Drop(call.ID)
			}
		}
	}
}

// end drops the output of what an event ends.
func (r *running) end(e event.Event) {
	switch {
	case r == nil:
	case e.Type == event.TypeActCompleted, transcript.Ends(e):
		r.tail.Reset()
	case e.Type == event.TypeToolCompleted:
		if data, err := event.Decode[event.ToolCompleted](e); err == nil {
			r.tail.Drop(data.ToolCallID)
		}
	}
}

// show shows the last lines.
func (r *running) show() error {
	if r == nil {
		return nil
	}
	columns, rows := r.size()
	return r.region.Show(columns-1, r.tail.Lines(max(min(maxOutputLines, rows/2), 1))...)
}

// clear shows nothing.
func (r *running) clear() error {
	if r == nil {
		return nil
	}
	return r.region.Clear()
}
