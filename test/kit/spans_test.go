package kit_test

import (
	"slices"
	"sync"

	"github.com/capstan-dev/capstan/capstantest"
)

// spans are those of the Turns with the controllers.
var spans = &spanLog{}

// spanLog keeps spans. It is safe for concurrent use.
type spanLog struct {
	mu    sync.Mutex
	spans []capstantest.Span
}

func (l *spanLog) add(s capstantest.Span) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.spans = append(l.spans, s)
}

// of returns the spans of a Turn in one form for all processes: their names, their errors and the names of their
// parents.
func (l *spanLog) of(turn string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	names := map[string]string{}
	var own []capstantest.Span
	for _, s := range l.spans {
		for _, a := range s.Attributes {
			if a.Key == "capstan.turn.uid" && a.Value.AsString() == turn {
				names[s.ID] = s.Name
				own = append(own, s)
			}
		}
	}
	var described []string
	for _, s := range own {
		described = append(described, names[s.Parent]+"/"+s.Name+" "+s.Error)
	}
	slices.Sort(described)
	return described
}
