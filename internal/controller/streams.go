package controller

import (
	"context"
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/configsource"
	"github.com/capstan-dev/capstan/internal/controller/stores"
	"github.com/capstan-dev/capstan/internal/controller/streaming"
	"github.com/capstan-dev/capstan/internal/controller/tooloutput"
	"github.com/capstan-dev/capstan/internal/runtime/config"
	"github.com/capstan-dev/capstan/internal/runtime/inspect"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/memory"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/sessionfs"
	"github.com/capstan-dev/capstan/internal/runtime/sessionimage"
	"github.com/capstan-dev/capstan/internal/runtime/step"
	"github.com/capstan-dev/capstan/internal/runtime/stored"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// journal are the settings of the journal.
func (o Options) journal(router *stores.Router) journal.Options {
	of := journal.Options{
		CacheBytes: o.JournalCacheBytes, MaxBytes: o.MaxJournalBytes, MaxNamespaceBytes: o.MaxNamespaceJournalBytes,
		Clock: o.Clock, Follow: router.Follow(),
	}
	if o.Streaming != nil {
		of.OnEntry, of.BeforeFollow = o.Streaming.OnEntry, o.Streaming.BeforeFollow
	}
	return of
}

// streams adds the server of event streams, if there is one.
func (o Options) streams(
	ctx context.Context, mgr ctrl.Manager, steps *step.Runner, texts *configsource.Texts, router *stores.Router,
) error {
	if o.Streaming == nil {
		return nil
	}
	if o.ToolOutput != nil {
		outputs := tooloutput.New(tooloutput.Options{
			Client: mgr.GetClient(), Logs: o.ToolOutput, Requests: o.Streaming.Rate,
			Log: mgr.GetLogger().WithName("tool-output"),
		})
		if err := mgr.Add(outputs); err != nil {
			return fmt.Errorf("adding the follower of tool output: %w", err)
		}
		o.Streaming.Outputs = outputs
	}
	o.Streaming.Resources = sessionResources{
		client: mgr.GetClient(), texts: texts, steps: steps, router: router,
	}
	return o.Streaming.SetUp(ctx, mgr, steps.Log, o.Clock)
}

// sessionResources are what Sessions have beside their events.
type sessionResources struct {
	client client.Reader
	texts  *configsource.Texts
	steps  *step.Runner
	router *stores.Router
}

// firstStatus is how long a write for a new Session waits until its reconciler has decided where it is stored.
const firstStatus = 10 * time.Second

var _ streaming.Resources = sessionResources{}

// config returns the configuration of the next Turn of a Session.
func (s sessionResources) config(
	ctx context.Context, session *v1alpha1.Session,
) (*config.Resolved, turnstate.Config, error) {
	resolved, err := configsource.Session(ctx, s.client, session)
	if err != nil {
		return nil, turnstate.Config{}, err
	}
	c := turnstate.ConfigOf(resolved, nil)
	c.Texts = s.texts.Of(resolved, session)
	return resolved, c, nil
}

// Files implements streaming.Resources.
func (s sessionResources) Files(
	ctx context.Context, session *v1alpha1.Session, writes bool,
) (*sessionfs.FS, error) {
	of := sessionfs.Session{Namespace: session.Namespace, Name: session.Name, UID: session.UID}
	if !writes {
		return sessionfs.New(s.steps.Records, of, nil), nil
	}
	waiting, cancel := context.WithTimeout(ctx, firstStatus)
	defer cancel()
	if err := s.router.Await(waiting, client.ObjectKeyFromObject(session), session.UID); err != nil {
		return nil, err
	}
	_, c, err := s.config(ctx, session)
	if err != nil {
		return nil, err
	}
	return sessionfs.New(s.steps.Records, of, step.InitialFiles(c)), nil
}

// Stored implements streaming.Resources.
func (s sessionResources) Stored(session *v1alpha1.Session) *stored.Services {
	of := record.Session{Namespace: session.Namespace, Name: session.Name, UID: session.UID}
	return stored.Of(s.steps.Records, of)
}

// Memories implements streaming.Resources.
func (s sessionResources) Memories(session *v1alpha1.Session) *memory.Memories {
	of := record.Session{Namespace: session.Namespace, Name: session.Name, UID: session.UID}
	return memory.Of(s.steps.Records, of)
}

// Images implements streaming.Resources.
func (s sessionResources) Images(
	ctx context.Context, session *v1alpha1.Session, writes bool,
) (*sessionimage.Images, error) {
	if writes {
		waiting, cancel := context.WithTimeout(ctx, firstStatus)
		defer cancel()
		if err := s.router.Await(waiting, client.ObjectKeyFromObject(session), session.UID); err != nil {
			return nil, err
		}
	}
	of := record.Session{Namespace: session.Namespace, Name: session.Name, UID: session.UID}
	return sessionimage.Of(s.steps.Records, of), nil
}

// Inspect implements streaming.Resources.
func (s sessionResources) Inspect(ctx context.Context, session *v1alpha1.Session) (*inspect.Context, error) {
	resolved, c, err := s.config(ctx, session)
	if err != nil {
		return nil, err
	}
	if c, err = step.WholeConfig(ctx, c); err != nil {
		return nil, err
	}
	messages, err := s.steps.Conversation(ctx, turnstate.JournalOf(session))
	if err != nil {
		return nil, err
	}
	return inspect.With(session, resolved, c, messages), nil
}

// Calls implements streaming.Resources.
func (s sessionResources) Calls(
	ctx context.Context, session *v1alpha1.Session, turn *v1alpha1.Turn,
) ([]journal.PlannedCall, error) {
	if turn.Status.Plan == nil {
		return nil, nil
	}
	planned, err := s.steps.Log.Step(ctx, turnstate.JournalOf(session), turn.UID, turn.Status.Plan.OpenedAtOrdinal-1)
	if err != nil {
		return nil, err
	}
	return planned.Calls, nil
}
