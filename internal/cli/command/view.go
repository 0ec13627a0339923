package command

import (
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/follow"
	"github.com/capstan-dev/capstan/internal/cli/history"
	"github.com/capstan-dev/capstan/internal/cli/pending"
	"github.com/capstan-dev/capstan/internal/cli/text"
	"github.com/capstan-dev/capstan/internal/cli/transcript"
	"github.com/capstan-dev/capstan/internal/runtime/event"
)

// indent is the width of the column of labels of a transcript.
var indent = strings.Repeat(" ", 11)

// view prints what is followed, as it happens.
type view struct {
	out        text.Printer
	transcript *transcript.Transcript
	states     states
	// message is the one whose text arrives, and received the number of its bytes that were printed.
	message  string
	received int64
	// open reports whether the last line has no end yet.
	open bool
	// progress is the newest progress of each call that was printed.
	progress map[string]string
}

func newView(out text.Printer, command pending.Command, o transcript.Options) *view {
	return &view{out: out, transcript: transcript.New(o), states: states{command: command}, progress: map[string]string{}}
}

// show prints an update.
func (v *view) show(u follow.Update) error {
	switch {
	case u.Delta != nil:
		return v.delta(u.Delta)
	case u.Item != nil:
		return v.item(*u.Item)
	case u.Progress != nil:
		return v.lines(v.progressOf(u.Progress)...)
	case u.Turn != nil:
		if u.Turn.Status.Plan != nil && !pending.Ended(u.Turn) {
			if err := v.begin(u.Turn); err != nil {
				return err
			}
		}
		return v.lines(v.states.lines(u.Turn)...)
	default:
		return nil
	}
}

// begin prints the heading and the message of a Turn that has begun.
func (v *view) begin(turn *v1alpha1.Turn) error {
	return v.lines(v.transcript.Begin(turn)...)
}

// lines prints lines below what was printed before.
func (v *view) lines(lines ...text.Line) error {
	if len(lines) == 0 {
		return nil
	}
	if err := v.close(); err != nil {
		return err
	}
	return v.out.Lines(lines...)
}

// close ends a line that has no end yet.
func (v *view) close() error {
	if !v.open {
		return nil
	}
	v.open = false
	return v.out.Lines(nil)
}

// delta prints text of a response as it arrives.
func (v *view) delta(d *follow.Delta) error {
	if d.Replaced {
		if v.message != d.Message || v.received == 0 {
			return nil
		}
		v.message, v.received = "", 0
		return v.lines(text.Of(text.Faint, indent+"(the model is called again)"))
	}
	chunk := d.Text
	switch {
	case d.Message != v.message || d.Offset == 0 && v.received > 0:
		if d.Message == v.message && d.Offset == 0 && int64(len(chunk)) >= v.received {
			chunk = chunk[v.received:] // the text so far, after a new connection
			break
		}
		if d.Offset != 0 {
			return nil // the beginning is unknown: the whole message comes with its end
		}
		if err := v.close(); err != nil {
			return err
		}
		v.message, v.received = d.Message, 0
	case d.Offset > v.received:
		return nil // some of it was lost: the whole message comes with its end
	case d.Offset < v.received:
		known := v.received - d.Offset
		if known >= int64(len(chunk)) {
			return nil
		}
		chunk = chunk[known:]
	}
	if v.received == 0 {
		if err := v.out.Chunk(text.Good, "", "agent      "); err != nil {
			return err
		}
	} else if !v.open {
		if err := v.out.Chunk(text.Plain, "", indent); err != nil {
			return err
		}
	}
	v.open = true
	v.received += int64(len(chunk))
	return v.out.Chunk(text.Plain, indent, chunk)
}

// item prints an event. The text of a message that has arrived in full is not printed again.
func (v *view) item(item history.Item) error {
	if item.Event.Type == event.TypeOutputMessageCompleted && v.received > 0 {
		if data, err := event.Decode[event.OutputMessageCompleted](item.Event); err == nil && data.Message.ID == v.message {
			if int64(len(data.Message.PlainText())) == v.received {
				v.transcript.Streamed(v.message)
			}
			v.message, v.received = "", 0
		}
	}
	return v.lines(v.transcript.Lines(item)...)
}

// progressOf returns the progress of a call, unless it reads as the one before.
func (v *view) progressOf(p *event.ToolProgress) []text.Line {
	words := transcript.Progress(*p)
	if v.progress[p.ToolCallID] == words {
		return nil
	}
	v.progress[p.ToolCallID] = words
	return []text.Line{{
		{Style: text.Notice, Text: text.Pad("progress", len(indent))}, {Style: text.Faint, Text: words},
	}}
}

// last keeps what the end of a Turn is reported with.
type last struct {
	turn     *v1alpha1.Turn
	response string
}

// note keeps an update.
func (l *last) note(u follow.Update) {
	if u.Turn != nil {
		l.turn = u.Turn
	}
	if u.Item == nil || u.Item.Event.Type != event.TypeOutputMessageCompleted {
		return
	}
	if data, err := event.Decode[event.OutputMessageCompleted](u.Item.Event); err == nil {
		l.response = data.Message.PlainText()
	}
}
