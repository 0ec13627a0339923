package crash_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// electionLog has the events of the processes of an election, for the report of a failure.
type electionLog struct {
	began time.Time
	mu    sync.Mutex
	lines []string
}

func (c *electionLog) note(format string, arguments ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(
		c.lines,
		fmt.Sprintf("%6d ms  ", time.Since(c.began).Milliseconds())+fmt.Sprintf(format, arguments...),
	)
}

// report returns the log as part of the error of a run.
func (c *electionLog) report() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.New("the election:\n" + strings.Join(c.lines, "\n"))
}
