package turn

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/title"
)

// Titles changes the titles of Sessions.
type Titles struct {
	// Client writes, and Live reads past the cache.
	Client client.Client
	Live   client.Reader
}

var _ title.Host = Titles{}

// SetTitle implements title.Host, with one write. The write concerns no other field, so that it needs no lock.
func (t Titles) SetTitle(ctx context.Context, of title.Session, text string, first bool) error {
	session := &v1alpha1.Session{}
	if err := t.Live.Get(ctx, types.NamespacedName{Namespace: of.Namespace, Name: of.Name}, session); err != nil {
		return fmt.Errorf("reading the Session: %w", err)
	}
	switch {
	case session.Spec.Title != "":
		return title.ErrGiven
	case first && session.Status.Title != "", session.Status.Title == text:
		return nil
	}
	// The API server refuses the patch of another Session of the name.
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": of.UID}, "status": map[string]any{"title": text},
	})
	if err != nil {
		return fmt.Errorf("encoding the title: %w", err)
	}
	if err := t.Client.Status().Patch(ctx, session, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("writing the title: %w", err)
	}
	return nil
}
