package modelcall

import (
	"fmt"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/model"
)

// shown is what a Text has received.
type shown []string

// Write implements Text.
func (s *shown) Write(text string) { *s = append(*s, text) }

// Replace implements Text.
func (s *shown) Replace() { *s = append(*s, "REPLACED") }

// Rules: LLM-04.
func TestTheTextOfEachAttemptIsShownAndThatOfAFailedOneReplaced(t *testing.T) {
	b := newBench(t)
	b.answer = func(r model.Request) (*model.Response, error) {
		switch len(b.requests) {
		case 1:
			r.ReportPartial(model.Partial{Text: "He"})
			r.ReportPartial(model.Partial{Text: "Hell"})
			return nil, unavailable()
		case 2:
			return nil, unavailable()
		default:
			r.ReportPartial(model.Partial{Text: "Hello"})
			r.ReportPartial(model.Partial{ToolCalls: true})
			return &model.Response{Text: "Hello"}, nil
		}
	}
	r, got := request(nil, named("m")), shown{}
	r.Live = &got
	if _, err := b.call(r); err != nil {
		t.Fatal(err)
	}
	if want := "[He Hell REPLACED Hello]"; fmt.Sprint(got) != want {
		t.Errorf("shown was %v, not %s", got, want)
	}
}
