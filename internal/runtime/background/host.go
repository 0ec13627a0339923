package background

import "context"

// Host runs the tasks of Sessions.
type Host interface {
	// Admit returns a *LimitError if no further task may start in the namespace of a Session.
	Admit(ctx context.Context, of Session) error
	// Changed makes the host look at the tasks of a Session, after one was recorded or is to be cancelled. When it
	// returns without an error, the host looks at them even if this process ends.
	Changed(ctx context.Context, of Session) error
}
