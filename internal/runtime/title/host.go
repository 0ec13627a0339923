package title

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"
)

// ErrGiven is why a Session gets no other title: a user has given it one.
var ErrGiven = errors.New("a user has given the Session its title")

// Session names a Session.
type Session struct {
	Namespace, Name string
	UID             types.UID
}

// Host changes the title of Sessions, and nothing else of them (CTX-02).
type Host interface {
	// SetTitle sets a title; as the first one only if there is none. The error is ErrGiven for a Session whose spec has a
	// title.
	SetTitle(ctx context.Context, of Session, text string, first bool) error
}

// Own is the title of one Session, for its tools.
type Own struct {
	Host Host
	Of   Session
}

// Set sets the title.
func (o Own) Set(ctx context.Context, text string) error {
	return o.Host.SetTitle(ctx, o.Of, text, false)
}
