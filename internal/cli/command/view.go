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
	// message is the one whose text arrives, and shown its text that was printed.
	message string
	shown   []byte
	// agreed is how much of shown the model has said in the response that arrives now: less than all of it after the
	// manager ended and the model is called again.
	agreed int
	// open reports whether the last line has no end yet.
	open bool
	// progress is the newest progress of each call that was printed.
	progress map[string]string
	// running shows the output of running tools; nil if the output is not a terminal.
	running *running
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
	case u.Output != nil:
		v.running.add(*u.Output)
		return v.redraw()
	case u.Turn != nil:
		v.running.follow(u.Turn)
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
		return v.redraw()
	}
	if err := v.close(); err != nil {
		return err
	}
	if err := v.out.Lines(lines...); err != nil {
		return err
	}
	return v.redraw()
}

// redraw shows the output of running tools below what was printed.
func (v *view) redraw() error {
	if v.open {
		return nil
	}
	return v.running.show()
}

// close ends a line that has no end yet, and the output of running tools.
func (v *view) close() error {
	if err := v.running.clear(); err != nil {
		return err
	}
	if !v.open {
		return nil
	}
	v.open = false
	return v.out.Lines(nil)
}

// delta prints text of a response as it arrives. Text that is on the terminal already is not printed again, also if
// another call of the model says it, as long as the two agree.
func (v *view) delta(d *follow.Delta) error {
	if d.Replaced {
		if v.message != d.Message || len(v.shown) == 0 {
			return nil
		}
		v.forget()
		return v.again()
	}
	if d.Message != v.message {
		if d.Offset != 0 {
			return nil // the beginning is unknown: the whole message comes with its end
		}
		if err := v.close(); err != nil {
			return err
		}
		v.forget()
		v.message = d.Message
	}
	if d.Offset > int64(v.agreed) {
		return nil // some of it was lost: the whole message comes with its end
	}
	at := int(d.Offset)
	if at == 0 {
		v.agreed = 0
	}
	chunk, known := d.Text, string(v.shown[at:])
	if strings.HasPrefix(known, chunk) {
		v.agreed = max(v.agreed, at+len(chunk))
		return nil
	}
	if !strings.HasPrefix(chunk, known) {
		chunk = string(v.shown[:at]) + chunk
		v.shown = nil
		if err := v.again(); err != nil {
			return err
		}
	} else {
		chunk = chunk[len(known):]
	}
	return v.words(chunk)
}

// forget begins another message.
func (v *view) forget() {
	v.message, v.shown, v.agreed = "", nil, 0
}

// again prints that the text above is not the response.
func (v *view) again() error {
	return v.lines(text.Of(text.Faint, indent+"(the model is called again)"))
}

// words prints more of the message.
func (v *view) words(chunk string) error {
	if err := v.running.clear(); err != nil {
		return err
	}
	style, label := text.Good, "agent      "
	if len(v.shown) > 0 {
		style, label = text.Plain, indent
	}
	if len(v.shown) == 0 || !v.open {
		if err := v.out.Chunk(style, "", label); err != nil {
			return err
		}
	}
	v.open = true
	v.shown = append(v.shown, chunk...)
	v.agreed = len(v.shown)
	return v.out.Chunk(text.Plain, indent, chunk)
}

// complete prints the rest of the message, which a connection that was cut has not brought.
func (v *view) complete(whole string) error {
	defer v.forget()
	rest, ok := strings.CutPrefix(whole, string(v.shown))
	if !ok {
		return nil // another text: the whole message is printed
	}
	v.transcript.Streamed(v.message)
	if rest == "" {
		return nil
	}
	return v.words(rest)
}

// item prints an event. The text of a message that has arrived is not printed again.
func (v *view) item(item history.Item) error {
	v.running.end(item.Event)
	if item.Event.Type == event.TypeOutputMessageCompleted && len(v.shown) > 0 {
		if data, err := event.Decode[event.OutputMessageCompleted](item.Event); err == nil && data.Message.ID == v.message {
			if err := v.complete(data.Message.PlainText()); err != nil {
				return err
			}
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
