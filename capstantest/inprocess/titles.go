package inprocess

import (
	"cmp"
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/title"
)

// titles changes the titles of the Sessions of a Runtime.
type titles struct{ objects *objects }

// SetTitle implements title.Host.
func (t titles) SetTitle(_ context.Context, of title.Session, text string, first bool) error {
	t.objects.mu.Lock()
	defer t.objects.mu.Unlock()
	name := keyOf(&v1alpha1.Session{ObjectMeta: metav1.ObjectMeta{Name: of.Name}})
	session, ok := t.objects.byKey[name].(*v1alpha1.Session)
	switch {
	case !ok:
		return fmt.Errorf("Session %q does not exist", of.Name)
	case session.Spec.Title != "":
		return title.ErrGiven
	case first && session.Status.Title != "":
		return nil
	}
	session = session.DeepCopy()
	session.Status.Title = text
	t.objects.byKey[name] = session
	return nil
}

// Title returns the title of a Session: that of its spec, or else the one that a model has written; empty for none.
func (r *Runtime) Title(session string) (string, error) {
	of, err := r.session(session)
	if err != nil {
		return "", fmt.Errorf("reading the title: %w", err)
	}
	return cmp.Or(of.Spec.Title, of.Status.Title), nil
}
