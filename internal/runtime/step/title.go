package step

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/ptr"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/modelcall"
	"github.com/capstan-dev/capstan/internal/runtime/prompt"
	"github.com/capstan-dev/capstan/internal/runtime/title"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
	"github.com/capstan-dev/capstan/internal/runtime/utility"
)

const (
	// titleLimit is how long a Turn that has ended waits for the title of its Session.
	titleLimit = 30 * time.Second
	// titleTokens is the most that a model writes for a title, reasoning included.
	titleTokens = 2048
)

// End does what is left to do for a Turn whose last step is the given one, before its status shows the end: it runs the
// hooks, and has a model write the title of the Session. After an error it must be called again.
func (run *Runner) End(ctx context.Context, t turnstate.Turn, c turnstate.Config, last *journal.Closed) error {
	if FiresTurnEnd(c.Hooks, last) {
		if err := run.EndHooks(ctx, t, c, last); err != nil {
			return err
		}
	}
	if !run.TitleDue(t, c, last) {
		return nil
	}
	if err := run.writeTitle(ctx, t, c, last); err != nil && ctx.Err() == nil {
		logr.FromContextOrDiscard(ctx).Info("No title was written for the Session", "session", t.Session.Name,
			"reason", err.Error())
	}
	return ctx.Err()
}

// TitleDue reports whether a model is to write the title of the Session now that a Turn ends. Sub-agents need none.
func (run *Runner) TitleDue(t turnstate.Turn, c turnstate.Config, last *journal.Closed) bool {
	return run.Titles != nil && c.Title != nil && c.Model != nil && !t.Titled && t.Depth == 0 && EndsTurn(last) &&
		last.Transition.Phase == v1alpha1.TurnPhaseSucceeded
}

// writeTitle has a model write the title of the Session with one call (SVC-01). It reads the message of the Turn as the
// models of the Turn have read it, and the response. An error leaves the Session without a title.
func (run *Runner) writeTitle(ctx context.Context, t turnstate.Turn, c turnstate.Config, last *journal.Closed) error {
	ctx, cancel := context.WithTimeout(ctx, titleLimit)
	defer cancel()
	view, err := run.conversation(ctx, t, last.Ordinal)
	if err != nil {
		return fmt.Errorf("reading the conversation: %w", err)
	}
	if len(view.Turns) > title.MaxTurns {
		return nil
	}
	message := ""
	for _, m := range view.Messages {
		if m.ID == t.MessageID() {
			message = m.PlainText()
		}
	}
	request := title.Request(message, last.Transition.Output)
	request.TurnID, request.User, request.Iteration = string(t.Ref.UID), prompt.User(t.Session.UID), 1
	called, err := run.caller().Call(ctx, modelcall.Request{
		Content: request, Input: t.MessageID(), Namespace: t.Session.Namespace, Models: []*v1alpha1.Model{titler(t, c)},
		Read: func(ctx context.Context, m *v1alpha1.Model) (*v1alpha1.Model, error) {
			return wholeModel(ctx, c, m)
		},
		Payer: t.Payer(),
	})
	if err != nil {
		return err
	}
	answer := called[len(called)-1]
	if answer.Err != nil {
		return answer.Err
	}
	text := title.Of(answer.Response.Text)
	if text == "" {
		return errors.New("the model has responded without a title")
	}
	err = run.Titles.SetTitle(ctx, title.Session{
		Namespace: t.Session.Namespace, Name: t.Session.Name, UID: t.Session.UID,
	}, text, true)
	if err != nil {
		return fmt.Errorf("setting the title: %w", err)
	}
	return nil
}

// titler is the Model that writes the title, with a bound on what it may cost.
func titler(t turnstate.Turn, c turnstate.Config) *v1alpha1.Model {
	m := c.Titler
	if m == nil {
		m = lastFirst(t, c.Models())[0]
	}
	m = utility.Tuned(m)
	p := m.Spec.Parameters
	if p == nil {
		p = &v1alpha1.ModelParameters{}
		m.Spec.Parameters = p
	}
	p.MaxOutputTokens = ptr.To(min(ptr.Deref(p.MaxOutputTokens, titleTokens), titleTokens))
	return m
}
