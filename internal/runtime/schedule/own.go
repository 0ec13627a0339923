package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Limits of the Schedules that models create (SCHED-03). Users with the right to create Schedules are not bound by
// them.
const (
	// MaxPerSession is the number of Schedules of a Session that may come due again.
	MaxPerSession = 5
	// MaxPerNamespace is the number of those of a namespace.
	MaxPerNamespace = 100
	// MinInterval is the shortest time between two times of a Schedule that a model creates.
	MinInterval = 300 * time.Second
	// MaxMessageBytes bounds a message.
	MaxMessageBytes = 16 << 10
)

// Names of the capability and of its tools.
const (
	Capability = "session_schedule"
	CreateTool = "create_schedule"
	ListTool   = "list_schedules"
	CancelTool = "cancel_schedule"
)

// Owner is the Session that models create Schedules for.
type Owner struct {
	Namespace, Name string
	UID             types.UID
}

// Request is a Schedule that a model requests.
type Request struct {
	// Message is sent to the Session at each tick.
	Message string
	// Schedule and TimeZone, or At: exactly one of Schedule and At is set.
	Schedule, TimeZone string
	At                 time.Time
	// Key identifies the call: the same call creates the same Schedule.
	Key string
	// SubmittedBy is the user who has sent the message of the Turn; empty for none.
	SubmittedBy string
}

// Entry is a Schedule that a model has created.
type Entry struct {
	// Name of the Schedule.
	Name string
	// Message, Schedule, TimeZone and At are those of the Request.
	Message, Schedule, TimeZone string
	At                          time.Time
	// Enabled reports whether it may come due again.
	Enabled bool
	// Last and Next are its last and its next tick; zero for none.
	Last, Next time.Time
	// Ticks is the number of its ticks.
	Ticks int64
}

// Host keeps the Schedules that models create.
type Host interface {
	// Create creates a Schedule of a Session, or finds the one that the same call has created. The error is a
	// *LimitError if the model may not create it.
	Create(ctx context.Context, of Owner, r Request) (*Entry, error)
	// List returns the Schedules that models have created for a Session, in the order of their creation.
	List(ctx context.Context, of Owner) ([]Entry, error)
	// Cancel suspends a Schedule, which remains, and returns it; nil if models have created none with the name for the
	// Session.
	Cancel(ctx context.Context, of Owner, name string) (*Entry, error)
}

// LimitError is why a Schedule cannot be created. Its text is for the model.
type LimitError struct{ text string }

// Error implements error.
func (e *LimitError) Error() string { return e.text }

// Limitf returns a *LimitError.
func Limitf(format string, args ...any) error { return &LimitError{fmt.Sprintf(format, args...)} }

// Check returns why a request cannot be carried out at a time, as a *LimitError.
func (r Request) Check(now time.Time) error {
	switch {
	case (r.Schedule == "") == r.At.IsZero():
		return Limitf("exactly one of cron and at must be set")
	case r.Message == "" || len(r.Message) > MaxMessageBytes:
		return Limitf("message must have 1 to %d bytes", MaxMessageBytes)
	case !r.At.IsZero() && r.TimeZone != "":
		return Limitf("timezone is for cron; write at with its offset from UTC")
	case !r.At.IsZero() && !r.At.After(now):
		return Limitf("at must be in the future; it is %s now", now.UTC().Format(time.RFC3339))
	case !r.At.IsZero():
		return nil
	}
	times, err := Parse(r.Schedule, r.TimeZone)
	var expression *ExpressionError
	var zone *ZoneError
	if errors.As(err, &expression) || errors.As(err, &zone) {
		return Limitf("%s", err)
	}
	if err != nil {
		return err
	}
	if times.Next(now).IsZero() {
		return Limitf("the schedule has no time within five years")
	}
	if gap := times.Gap(); gap < MinInterval {
		return Limitf("the times of the schedule are %s apart; at least %s are required", gap, MinInterval)
	}
	return nil
}

// Own are the Schedules of one Session, for one call of a tool.
type Own struct {
	Host  Host
	Owner Owner
	// Key identifies the call, and SubmittedBy is the user who has sent the message of its Turn.
	Key, SubmittedBy string
}

// Create creates the Schedule of the call, or returns the one that the call has created before. The error is a
// *LimitError where a limit forbids it.
func (o Own) Create(ctx context.Context, r Request) (*Entry, error) {
	r.Key, r.SubmittedBy = o.Key, o.SubmittedBy
	return o.Host.Create(ctx, o.Owner, r)
}

// List returns the Schedules of the Session that models have created.
func (o Own) List(ctx context.Context) ([]Entry, error) { return o.Host.List(ctx, o.Owner) }

// Cancel suspends a Schedule of the Session, and returns nil for none of this name.
func (o Own) Cancel(ctx context.Context, name string) (*Entry, error) {
	return o.Host.Cancel(ctx, o.Owner, name)
}
