package crash_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// chronicle says, for people who look at a failure, what became of the processes of an election.
type chronicle struct {
	began time.Time
	mu    sync.Mutex
	lines []string
}

func (c *chronicle) note(format string, arguments ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(
		c.lines,
		fmt.Sprintf("%6d ms  ", time.Since(c.began).Milliseconds())+fmt.Sprintf(format, arguments...),
	)
}

// told is the chronicle as part of the error of a run.
func (c *chronicle) told() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.New("the election:\n" + strings.Join(c.lines, "\n"))
}
