package background

import "context"

// Host runs the tasks of Sessions.
type Host interface {
	// Announce makes sure that the host finds a task from now on, even if this process ends, before it is recorded. The
	// error is a *LimitError if no further task may start. Announcing a task again changes nothing.
	Announce(ctx context.Context, of Session, t *Task) error
	// Changed makes the host look at the tasks of a Session, after one was recorded, cancelled or withdrawn. It does so
	// even if this process ends.
	Changed(of Session)
}
