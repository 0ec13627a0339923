package command

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/follow"
	"github.com/capstan-dev/capstan/internal/cli/history"
	"github.com/capstan-dev/capstan/internal/cli/text"
	"github.com/capstan-dev/capstan/internal/cli/transcript"
	"github.com/capstan-dev/capstan/internal/runtime/event"
)

func wrote(call string, offset int64, words string) follow.Update {
	return follow.Update{Output: &follow.Output{
		ToolOutputDelta: stream.ToolOutputDelta{ToolCallID: call, Attempt: 1, Offset: offset, Delta: words}, Turn: "u",
	}}
}

// wroteIn is wrote of another Turn.
func wroteIn(turn types.UID, call string, offset int64, words string) follow.Update {
	u := wrote(call, offset, words)
	u.Output.Turn = turn
	return u
}

func returned(call string) follow.Update {
	e := event.NewFactory(event.Identity{Turn: "u"}, nil).Step(2, 1).ToolCompleted(event.ToolCompleted{
		ToolCallID: call, ToolName: "w", Success: true, Status: event.StatusSuccess, Result: []event.Part{event.Text("12")},
	})
	return follow.Update{Item: &history.Item{Turn: v1alpha1.JournalTurn{Name: "t", UID: "u"}, Event: e}}
}

// settled is a Turn one of whose calls has ended.
func settled(call string) follow.Update {
	turn := &v1alpha1.Turn{}
	turn.UID = "u"
	turn.Status.ToolCalls = []v1alpha1.ToolCall{{ID: call, State: v1alpha1.ToolCallStateSucceeded}}
	return follow.Update{Turn: turn}
}

// screen returns what a terminal shows of an output that moves the cursor up, erases what is below, and nothing else.
func screen(t *testing.T, out string) string {
	t.Helper()
	var lines []string
	for rest := out; rest != ""; {
		if up, after, ok := strings.Cut(rest, "A\x1b[J"); ok && strings.HasPrefix(up, "\x1b[") && len(up) == 3 {
			lines, rest = lines[:len(lines)-int(up[2]-'0')], after
			continue
		}
		end := strings.IndexByte(rest, '\n') + 1
		if end == 0 {
			end = len(rest)
		}
		if strings.Contains(rest[:end], "\x1b") {
			t.Fatalf("the terminal gets %q", rest[:end])
		}
		lines, rest = append(lines, rest[:end]), rest[end:]
	}
	return strings.Join(lines, "")
}

// Rules: CTX-04.
func TestTheOutputOfARunningToolIsBelowTheConversation(t *testing.T) {
	for name, test := range map[string]struct {
		updates []follow.Update
		want    string
	}{
		"while it runs": {
			[]follow.Update{wrote("1-0", 0, "one\n"), wrote("1-0", 4, "two")},
			"output     1-0  one\noutput     1-0  two\n",
		},
		"the last lines": {[]follow.Update{wrote("1-0", 0, "1\n2\n3\n4\n5\n")}, "output     1-0  4\noutput     1-0  5\n"},
		"until its result": {
			[]follow.Update{wrote("1-0", 0, "one\n"), wrote("1-1", 0, "other"), returned("1-0")},
			"result     1-0  w\n           12\noutput     1-1  other\n",
		},
		"until its status": {
			[]follow.Update{wrote("1-0", 0, "one\n"), wrote("1-1", 0, "other"), settled("1-0"), progress(1)},
			"progress   1-0  w  25%\noutput     1-1  other\n",
		},
		"until a status that prints nothing": {
			[]follow.Update{wrote("1-0", 0, "one\n"), wrote("1-1", 0, "other"), settled("1-0")},
			"output     1-1  other\n",
		},
		"of the Turn that runs": {
			[]follow.Update{
				wroteIn("deleted", "1-0", 0, "old\n"), wroteIn("deleted", "1-1", 0, "old\n"), wrote("1-0", 0, "new\n"),
			},
			"output     1-0  new\n",
		},
		"below progress": {
			[]follow.Update{wrote("1-0", 0, "one\n"), progress(1), wrote("1-0", 4, "two"), progress(2)},
			"progress   1-0  w  25%\nprogress   1-0  w  50%\noutput     1-0  one\noutput     1-0  two\n",
		},
		"not below words that come": {
			[]follow.Update{words("m", 0, "Hello "), wrote("1-0", 0, "one\n"), words("m", 6, "you.")},
			"agent      Hello you.",
		},
		"within the width": {
			[]follow.Update{wrote("1-0", 0, strings.Repeat("x", 1000))},
			"output     1-0  " + strings.Repeat("x", 23) + "\n",
		},
		"hostile": {
			[]follow.Update{wrote("1-0", 0, "\x1b[2J\x1b[9A\u202e\r\nx\n")},
			"output     1-0  \\x1b[2J\\x1b[9A\\u202e\noutput     1-0  x\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out, plain bytes.Buffer
			p := text.Printer{Out: &out}
			shown := newView(p, "kubectl capstan", transcript.Options{Shown: "u"})
			shown.running = &running{region: &text.Region{Printer: p}, size: func() (int, int) { return 40, 4 }}
			without := newView(text.Printer{Out: &plain}, "kubectl capstan", transcript.Options{Shown: "u"})
			for _, u := range test.updates {
				for _, v := range []*view{shown, without} {
					if err := v.show(u); err != nil {
						t.Fatal(err)
					}
				}
			}
			if got := screen(t, out.String()); got != test.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, test.want)
			}
			for _, v := range []*view{shown, without} {
				if err := v.close(); err != nil {
					t.Fatal(err)
				}
			}
			if got := screen(t, out.String()); got != plain.String() {
				t.Errorf("at the end it shows:\n%s\nand without a terminal:\n%s", got, plain.String())
			}
		})
	}
}

// A note about the connection is neither erased with the lines nor left between them.
func TestANoteIsAboveTheOutputOfARunningTool(t *testing.T) {
	var terminal bytes.Buffer
	printer := text.Printer{Out: &terminal}
	p := &program{out: printer, err: printer, region: &text.Region{Printer: printer}}
	v := newView(printer, "kubectl capstan", transcript.Options{})
	v.running = &running{region: p.region, size: func() (int, int) { return 40, 8 }}
	if err := v.show(wrote("1-0", 0, "one\ntwo\n")); err != nil {
		t.Fatal(err)
	}
	p.note("The stream is lost.")
	lines := "output     1-0  one\noutput     1-0  two\n"
	if got := screen(t, terminal.String()); got != "The stream is lost.\n"+lines {
		t.Errorf("the terminal shows:\n%s", got)
	}
	if err := v.show(wrote("1-0", 8, "three")); err != nil {
		t.Fatal(err)
	}
	if got := screen(t, terminal.String()); got != "The stream is lost.\n"+lines+"output     1-0  three\n" {
		t.Errorf("the terminal shows:\n%s", got)
	}
	p.region = nil
	p.note("Without a terminal.")
	if !strings.HasSuffix(terminal.String(), "\nWithout a terminal.\n") {
		t.Errorf("the terminal gets:\n%s", terminal.String())
	}
}
