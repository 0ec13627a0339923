package step

import (
	"errors"
	"regexp"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
)

// TestNoStatusIsInvented: a wait for another try shows the number of a status only where a server has sent it.
func TestNoStatusIsInvented(t *testing.T) {
	number := regexp.MustCompile(`\b[45][0-9]{2}\b`)
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"no connection": {
			provider.RequestError(
				t.Context(), "Test", &egress.Error{Reason: egress.ReasonUnreachable, Text: "connection refused"},
			), "",
		},
		"a broken one": {provider.RequestError(t.Context(), "Test", errors.New("lost")), ""},
		"of a server":  {unavailable(), "503"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.failing(test.err, test.err)
			turn := newTurn("demo-1")
			turn.Progress.Plan.Attempt, turn.Progress.Plan.Model = 1, "m"
			_, err := b.Reason(t.Context(), turn, with())
			var backoff *Backoff
			if !errors.As(err, &backoff) {
				t.Fatalf("%v", err)
			}
			backoff.Describe(&turn.Progress)
			if text := turn.Progress.WaitsFor[0].Message; number.FindString(text) != test.want {
				t.Errorf("%q", text)
			}
		})
	}
}
