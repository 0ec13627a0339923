package step

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/live"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/probe"
	"github.com/capstan-dev/capstan/internal/runtime/modelcall"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// caller calls the Models of Turns.
func (run *Runner) caller() *modelcall.Caller {
	return &modelcall.Caller{
		Options: run.Options, Clock: run.Clock, Egress: run.Egress, Secrets: run.Secrets,
		ConfigMaps: run.ConfigMaps, Account: run.Account,
	}
}

// CheckKey returns why a Model has no API key, as a *model.KeyError; nil if it has one or needs none. After any other
// error the state of the key is unknown.
func (run *Runner) CheckKey(ctx context.Context, m *v1alpha1.Model) error {
	return run.caller().CheckKey(ctx, m)
}

// ProbeModel asks the provider of a Model whether it accepts the Model.
func (run *Runner) ProbeModel(ctx context.Context, m *v1alpha1.Model) (probe.Result, error) {
	return run.caller().Probe(ctx, m)
}

// call makes the response of the open step. What is to be waited for is a *Backoff, a *RateLimited or a
// *turnstate.MissingKey. earlier
// is the Backoff after which the call continues; nil for none, or for one that only the plan has.
func (run *Runner) call(
	ctx context.Context, t turnstate.Turn, c turnstate.Config, content model.Request, earlier *Backoff,
) ([]modelcall.Result, error) {
	var shown modelcall.Text
	if run.Live != nil {
		text := run.Live.Respond(responseOf(t))
		defer text.End()
		shown = text
	}
	results, err := run.caller().Call(ctx, modelcall.Request{
		Content:   content,
		Input:     t.MessageID(),
		Namespace: t.Session.Namespace,
		Models:    lastFirst(t, c.Models()),
		Read: func(ctx context.Context, m *v1alpha1.Model) (*v1alpha1.Model, error) {
			return wholeModel(ctx, c, m)
		},
		Record: func(
			ctx context.Context, m *v1alpha1.Model, message string, abandon context.CancelFunc,
		) modelcall.Recording {
			return run.record(ctx, t, m, message, abandon)
		},
		Payer:       t.Payer(),
		OnLowBudget: func(name string) { t.Budgets.Warn(t.Step(), run.Clock(), name) },
		Live:        shown,
		TraceParent: t.ModelTraceParent,
		Earlier:     resumed(t, earlier),
	})
	if limited := rateLimited(err, waits); limited != nil {
		return nil, limited
	}
	var backoff *modelcall.Backoff
	if errors.As(err, &backoff) {
		return nil, waits(backoff)
	}
	var held *modelcall.Held
	if errors.As(err, &held) {
		return nil, &Held{Refusal: held.Refusal, Earlier: waits(held.Earlier)}
	}
	var key *model.KeyError
	if errors.As(err, &key) {
		return nil, &turnstate.MissingKey{Model: key.Model, Reason: key.Reason, Problem: key.Problem}
	}
	return results, err
}

// waits returns a wait of the call with the prompt.
func waits(b *modelcall.Backoff) *Backoff { return &Backoff{Backoff: b} }

// resumed is the Backoff after which a model call continues: the given one, or the one that the plan has; nil for none.
func resumed(t turnstate.Turn, earlier *Backoff) *modelcall.Backoff {
	if earlier != nil {
		return earlier.Backoff
	}
	return modelcall.Resumed(t.Progress.Plan.Model, t.Progress.Plan.Attempt)
}

// responseOf names the response of the open step to those who follow it.
func responseOf(t turnstate.Turn) live.Response {
	return live.Response{
		Session: types.NamespacedName{Namespace: t.Session.Namespace, Name: t.Session.Name}, UID: t.Session.UID,
		Turn: t.Ref, Message: t.ResponseID(),
	}
}

// lastFirst moves the Model that responded last in the Turn to the front, so that a tool loop continues with the
// reasoning and the prompt cache of one model. The next Turn begins with the configured Model again.
func lastFirst(t turnstate.Turn, models []*v1alpha1.Model) []*v1alpha1.Model {
	if t.Step() == 1 {
		return models
	}
	for i, m := range models {
		if m.Name == t.Progress.Model {
			return append([]*v1alpha1.Model{m}, slices.Delete(models, i, i+1)...)
		}
	}
	return models
}
