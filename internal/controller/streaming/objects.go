package streaming

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/fieldindex"
	"github.com/capstan-dev/capstan/internal/runtime/feed"
)

// maxTurns bounds the Turns whose state a caller gets when it joins.
const maxTurns = 32

// Cached finds Sessions in the manager's cache.
type Cached struct{ Client client.Reader }

var _ Sessions = Cached{}

// Session implements Sessions.
func (c Cached) Session(ctx context.Context, namespace, name string) (*v1alpha1.Session, []*v1alpha1.Turn, error) {
	session := &v1alpha1.Session{}
	err := c.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, session)
	if apierrors.IsNotFound(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading Session %s/%s: %w", namespace, name, err)
	}
	var turns v1alpha1.TurnList
	if err := c.Client.List(ctx, &turns, client.InNamespace(namespace),
		client.MatchingFields{fieldindex.OpenTurn: name}); err != nil {
		return nil, nil, fmt.Errorf("listing the Turns of Session %s/%s: %w", namespace, name, err)
	}
	var open []*v1alpha1.Turn
	for i := range turns.Items {
		if turn := &turns.Items[i]; turn.Status.SessionUID == session.UID && len(open) < maxTurns {
			open = append(open, turn)
		}
	}
	return session, open, nil
}

// Wake wakes the subscribers of a Hub by what the manager's cache learns: further entries of a journal, the status of
// Turns, and the end of Sessions. It costs no request.
func Wake(ctx context.Context, informers cache.Informers, hub *feed.Hub) error {
	sessions, err := informers.GetInformer(ctx, &v1alpha1.Session{})
	if err != nil {
		return fmt.Errorf("getting the informer of Sessions: %w", err)
	}
	turns, err := informers.GetInformer(ctx, &v1alpha1.Turn{})
	if err != nil {
		return fmt.Errorf("getting the informer of Turns: %w", err)
	}
	noticed := func(object any) {
		if s, ok := object.(*v1alpha1.Session); ok {
			hub.Noticed(s.UID, s.Status.Journal.Head)
		}
	}
	if _, err := sessions.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    noticed,
		UpdateFunc: func(_, object any) { noticed(object) },
		DeleteFunc: func(object any) {
			if s, ok := last(object).(*v1alpha1.Session); ok {
				hub.End(s.UID, stream.EndedSessionDeleted)
			}
		},
	}); err != nil {
		return fmt.Errorf("watching Sessions: %w", err)
	}
	shown := func(object any) {
		if t, ok := object.(*v1alpha1.Turn); ok && t.Status.SessionUID != "" {
			hub.Turn(t.Status.SessionUID, t)
		}
	}
	if _, err := turns.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: shown, UpdateFunc: func(_, object any) { shown(object) },
		DeleteFunc: func(object any) {
			if t, ok := last(object).(*v1alpha1.Turn); ok && t.Status.SessionUID != "" {
				hub.TurnDeleted(t.Status.SessionUID, t.UID)
			}
		},
	}); err != nil {
		return fmt.Errorf("watching Turns: %w", err)
	}
	return nil
}

// last returns the last known state of an object that was deleted.
func last(object any) any {
	if gone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		return gone.Obj
	}
	return object
}
