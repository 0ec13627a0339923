// Package passes counts the passes of the controllers by object. The metrics of controller-runtime count them by
// controller only: in a suite they also move when an object that another spec left behind is looked at again by time.
package passes

import (
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/go-logr/logr"
)

const (
	// begun is the message that controller-runtime logs at the beginning of each pass, and level its verbosity.
	begun = "Reconciling"
	level = 5
	// kubelet is the controller of the kit that plays Job controller and kubelet. It is not one of Capstan's.
	kubelet = "job-player"
)

// Counter counts passes. The zero value is usable.
type Counter struct {
	mu     sync.Mutex
	counts map[pass]int
}

// pass is the request of a controller's pass.
type pass struct {
	controller, namespace, name string
}

// String names the pass in a failure.
func (p pass) String() string { return p.controller + " " + p.name }

// Counts are numbers of passes, by controller and name of the object.
type Counts map[string]int

// Count gives a logger for controllers whose passes are to be counted. It logs what the given one logs.
func (c *Counter) Count(log logr.Logger) logr.Logger {
	return logr.New(&sink{LogSink: log.GetSink(), counter: c})
}

// In gives the passes over the objects of a namespace. A pass over something that is in no namespace counts in all of
// them.
func (c *Counter) In(namespace string) Counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := Counts{}
	for p, n := range c.counts {
		if p.controller != kubelet && (p.namespace == namespace || p.namespace == "") {
			counts[p.String()] += n
		}
	}
	return counts
}

// Since gives the passes that came after those counted before.
func (c Counts) Since(before Counts) Counts {
	later := maps.Clone(c)
	for what, n := range before {
		later[what] -= n
	}
	maps.DeleteFunc(later, func(_ string, n int) bool { return n == 0 })
	return later
}

// Of gives those that are passes of a controller.
func (c Counts) Of(controller string) Counts {
	own := maps.Clone(c)
	maps.DeleteFunc(own, func(what string, _ int) bool { return !strings.HasPrefix(what, controller+" ") })
	return own
}

func (c *Counter) add(p pass) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[pass]int{}
	}
	c.counts[p]++
}

// sink notes passes and hands on to another one what that one logs.
type sink struct {
	logr.LogSink
	counter *Counter
	pass    pass
}

// Init implements logr.LogSink. Calls come through one function more than without this sink.
func (s *sink) Init(info logr.RuntimeInfo) {
	info.CallDepth++
	s.LogSink.Init(info)
}

// Enabled implements logr.LogSink.
func (s *sink) Enabled(verbosity int) bool { return verbosity == level || s.LogSink.Enabled(verbosity) }

// Info implements logr.LogSink.
func (s *sink) Info(verbosity int, message string, keysAndValues ...any) {
	if verbosity == level && message == begun {
		s.counter.add(s.pass)
	}
	if s.LogSink.Enabled(verbosity) {
		s.LogSink.Info(verbosity, message, keysAndValues...)
	}
}

// WithName implements logr.LogSink.
func (s *sink) WithName(name string) logr.LogSink {
	return &sink{LogSink: s.LogSink.WithName(name), counter: s.counter, pass: s.pass}
}

// WithValues implements logr.LogSink.
func (s *sink) WithValues(keysAndValues ...any) logr.LogSink {
	next := &sink{LogSink: s.LogSink.WithValues(keysAndValues...), counter: s.counter, pass: s.pass}
	for i := 0; i+1 < len(keysAndValues); i += 2 {
		switch keysAndValues[i] {
		case "controller":
			next.pass.controller = fmt.Sprint(keysAndValues[i+1])
		case "namespace":
			next.pass.namespace = fmt.Sprint(keysAndValues[i+1])
		case "name":
			next.pass.name = fmt.Sprint(keysAndValues[i+1])
		}
	}
	return next
}
