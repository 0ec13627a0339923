package v1alpha1

import (
	"context"
	"iter"
)

// Follower follows the events of Sessions.
type Follower interface {
	// Follow returns the events of a Session that come after a sequence number, 0 for all of them, in order: each
	// durable event once, and live events between them. It connects again by itself, and continues behind the last
	// durable event. With a UID it follows that Session only, not one that is created later under its name.
	//
	// The sequence ends with the context, with the Session, or with an error, which is its last element. Breaking off
	// the loop ends it as well.
	Follow(ctx context.Context, session Session, after int64) iter.Seq2[Event, error]
}
