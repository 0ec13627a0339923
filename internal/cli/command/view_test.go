package command

import (
	"bytes"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/follow"
	"github.com/capstan-dev/capstan/internal/cli/history"
	"github.com/capstan-dev/capstan/internal/cli/text"
	"github.com/capstan-dev/capstan/internal/cli/transcript"
	"github.com/capstan-dev/capstan/internal/runtime/event"
)

// said is the event of a whole message.
func said(id, words string) follow.Update {
	m := event.NewAssistantMessage(words, nil)
	m.ID = id
	f := event.NewFactory(event.Identity{Turn: "u"}, nil)
	e := f.Step(1, 1).OutputMessageCompleted(event.OutputMessageCompleted{Message: m})
	return follow.Update{Item: &history.Item{Turn: v1alpha1.JournalTurn{Name: "t", UID: "u"}, Event: e}}
}

func words(id string, offset int64, chunk string) follow.Update {
	return follow.Update{Delta: &follow.Delta{Message: id, Offset: offset, Text: chunk}}
}

func replaced(id string) follow.Update {
	return follow.Update{Delta: &follow.Delta{Message: id, Replaced: true}}
}

func progress(done float64) follow.Update {
	return follow.Update{Progress: &event.ToolProgress{ToolCallID: "1-0", ToolName: "w", Progress: done, Total: 4}}
}

// TestWordsAsTheyCome: each word is printed once, whatever the connection loses or repeats.
func TestWordsAsTheyCome(t *testing.T) {
	const line = "agent      Hello you.\n"
	for name, test := range map[string]struct {
		updates []follow.Update
		want    string
	}{
		"in order":    {[]follow.Update{words("m", 0, "Hello "), words("m", 6, "you."), said("m", "Hello you.")}, line},
		"without any": {[]follow.Update{said("m", "Hello you.")}, line},
		"rejoined": {
			[]follow.Update{words("m", 0, "Hello "), words("m", 0, "Hello you."), said("m", "Hello you.")}, line,
		},
		"repeated": {
			[]follow.Update{words("m", 0, "Hello "), words("m", 3, "lo you."), said("m", "Hello you.")}, line,
		},
		"joined too late": {[]follow.Update{words("m", 6, "you."), said("m", "Hello you.")}, line},
		"with a gap": {
			[]follow.Update{words("m", 0, "Hel"), words("m", 6, "you."), said("m", "Hello you.")}, line,
		},
		"cut before the end": {[]follow.Update{words("m", 0, "Hello "), said("m", "Hello you.")}, line},
		"replaced": {
			[]follow.Update{words("m", 0, "Hm"), replaced("m"), words("m", 0, "Hello you."), said("m", "Hello you.")},
			"agent      Hm\n           (the model is called again)\n" + line,
		},
		"called again, with the same words": {
			[]follow.Update{
				words("m", 0, "Hello "), words("m", 0, "Hel"), words("m", 3, "lo "), words("m", 6, "you."), said("m", "Hello you."),
			},
			line,
		},
		"called again, with other words": {
			[]follow.Update{
				words("m", 0, "Hello th"), words("m", 0, "Hello "), words("m", 6, "you."), said("m", "Hello you."),
			},
			"agent      Hello th\n           (the model is called again)\n" + line,
		},
		"called again, and seen late": {
			[]follow.Update{words("m", 0, "Hi th"), words("m", 0, "Hello you."), said("m", "Hello you.")},
			"agent      Hi th\n           (the model is called again)\n" + line,
		},
		"called again, with fewer words": {
			[]follow.Update{words("m", 0, "Hello you. Well."), words("m", 0, "Hello you."), said("m", "Hello you.")},
			"agent      Hello you. Well.\n" + line,
		},
		"other words of the same length": {
			[]follow.Update{words("m", 0, "Hello all."), said("m", "Hello you.")}, "agent      Hello all.\n" + line,
		},
		"two messages": {
			[]follow.Update{words("a", 0, "One"), said("a", "One"), words("b", 0, "Two\nlines"), said("b", "Two\nlines")},
			"agent      One\nagent      Two\n           lines\n",
		},
		"with progress between": {
			[]follow.Update{words("m", 0, "Hello "), progress(1), progress(1), words("m", 6, "you."), said("m", "Hello you.")},
			"agent      Hello \nprogress   1-0  w  25%\n           you.\n",
		},
		"hostile": {
			[]follow.Update{words("m", 0, "\x1b[2J\u202e"), said("m", "\x1b[2J\u202e")},
			"agent      \\x1b[2J\\u202e\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			v := newView(text.Printer{Out: &out}, "kubectl capstan", transcript.Options{Shown: "u"})
			for _, u := range test.updates {
				if err := v.show(u); err != nil {
					t.Fatal(err)
				}
			}
			if err := v.close(); err != nil {
				t.Fatal(err)
			}
			if out.String() != test.want {
				t.Errorf("got:\n%s\nwant:\n%s", out.String(), test.want)
			}
		})
	}
}
