package tail_test

import (
	"fmt"
	"strings"
	"testing"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/tail"
)

func delta(call string, offset int64, text string) stream.ToolOutputDelta {
	return stream.ToolOutputDelta{ToolCallID: call, Attempt: 1, Offset: offset, Delta: text}
}

func again(d stream.ToolOutputDelta) stream.ToolOutputDelta {
	d.Attempt++
	return d
}

// Rules: CTX-04.
func TestTheLastLinesOfEachCall(t *testing.T) {
	for name, test := range map[string]struct {
		deltas []stream.ToolOutputDelta
		want   []string
	}{
		"nothing":          {nil, nil},
		"lines":            {[]stream.ToolOutputDelta{delta("1-0", 0, "one\ntwo\n")}, []string{"1-0  one", "1-0  two"}},
		"a line that goes": {[]stream.ToolOutputDelta{delta("1-0", 0, "on"), delta("1-0", 2, "e")}, []string{"1-0  one"}},
		"the last ones": {
			[]stream.ToolOutputDelta{delta("1-0", 0, "1\n2\n3\n4\n5")}, []string{"1-0  2", "1-0  3", "1-0  4", "1-0  5"},
		},
		"two calls": {
			[]stream.ToolOutputDelta{delta("1-1", 0, "a\nb\nc\n"), delta("1-0", 0, "x\n"), delta("1-1", 6, "d")},
			[]string{"1-0  x", "1-1  c", "1-1  d"},
		},
		"the calls that have written last": {
			[]stream.ToolOutputDelta{
				delta("1-0", 0, "a"), delta("1-1", 0, "b"), delta("1-2", 0, "c"), delta("1-3", 0, "d"), delta("1-4", 0, "e"),
			},
			[]string{"1-1  b", "1-2  c", "1-3  d", "1-4  e"},
		},
		"known already": {
			[]stream.ToolOutputDelta{delta("1-0", 0, "one\n"), delta("1-0", 0, "one\n"), delta("1-0", 2, "e\ntwo")},
			[]string{"1-0  one", "1-0  two"},
		},
		"a gap":       {[]stream.ToolOutputDelta{delta("1-0", 0, "on"), delta("1-0", 9, "x")}, []string{"1-0  …", "1-0  x"}},
		"joined late": {[]stream.ToolOutputDelta{delta("1-0", 900, "x")}, []string{"1-0  x"}},
		"another attempt": {
			[]stream.ToolOutputDelta{delta("1-0", 0, "one\n"), again(delta("1-0", 0, "new"))}, []string{"1-0  new"},
		},
		"an earlier attempt": {
			[]stream.ToolOutputDelta{again(delta("1-0", 0, "new")), delta("1-0", 9, "old")}, []string{"1-0  new"},
		},
		"progress of a program": {
			[]stream.ToolOutputDelta{delta("1-0", 0, "10%\r20%"), delta("1-0", 7, "\r"), delta("1-0", 8, "30%\r\nend")},
			[]string{"1-0  30%", "1-0  end"},
		},
		"hostile": {[]stream.ToolOutputDelta{delta("1-0", 0, "\x1b[2J\u202e")}, []string{`1-0  \x1b[2J\u202e`}},
	} {
		t.Run(name, func(t *testing.T) {
			var kept tail.Tail
			for _, d := range test.deltas {
				kept.Add(d)
			}
			var got []string
			for _, line := range kept.Lines(4) {
				got = append(got, strings.TrimPrefix(line.String(), "output     "))
			}
			if fmt.Sprint(got) != fmt.Sprint(test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestATailIsBounded(t *testing.T) {
	var kept tail.Tail
	for i := range 1000 {
		call := fmt.Sprint(i % 50)
		kept.Add(delta(call, 0, strings.Repeat("x", 1<<14)))
		kept.Add(delta(call, 1<<14, strings.Repeat("y\n", 1<<8)))
	}
	lines := kept.Lines(1000)
	if len(lines) > 8*6 {
		t.Errorf("%d lines are kept", len(lines))
	}
	for _, line := range lines {
		if len(line.String()) > 2<<10 {
			t.Errorf("a line has %d bytes", len(line.String()))
		}
	}
	kept.Drop("49")
	if len(kept.Lines(1000)) >= len(lines) {
		t.Error("the call was not dropped")
	}
	kept.Reset()
	if len(kept.Lines(4)) > 0 {
		t.Error("there are lines after the end")
	}
}
