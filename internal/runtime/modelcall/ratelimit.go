package modelcall

import (
	"cmp"
	"context"
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/budget"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/ratelimit"
)

// defaultOutputTokens are those of a response of a Model without maxOutputTokens, for its rate limit.
const defaultOutputTokens = 8192

// Limited is a model call that has no room within the limits of a Model. Nothing was sent to that Model; the call
// continues after Resume.
type Limited struct {
	*ratelimit.Refusal
	Resume *Backoff
}

// Error implements error.
func (l *Limited) Error() string {
	return fmt.Sprintf("Model %q has reached its rate limit: %s.", l.Resume.Model, limitText(l.Limit))
}

// limitText describes a limit, for people.
func limitText(l ratelimit.Limit) string {
	switch {
	case l.Tokens == 0:
		return fmt.Sprintf("%d requests per minute", l.Requests)
	case l.Requests == 0:
		return fmt.Sprintf("%d tokens per minute", l.Tokens)
	default:
		return fmt.Sprintf("%d requests and %d tokens per minute", l.Requests, l.Tokens)
	}
}

// room reserves room for an attempt within the limits that hold for a Model: its own, and those of the Models with the
// same credential. The error is a *ratelimit.Refusal if there is none.
func (c *Caller) room(
	ctx context.Context, r Request, m *v1alpha1.Model, content model.Request,
) (*ratelimit.Reservation, error) {
	if c.Limits == nil {
		return nil, nil
	}
	source, limit := sourceOf(r.Namespace, m), limitOf(m)
	if c.LimitedModels != nil {
		others, err := c.LimitedModels(ctx, r.Namespace)
		if err != nil {
			return nil, fmt.Errorf("reading the limits of Models: %w", err)
		}
		for i := range others {
			if sourceOf(r.Namespace, &others[i]) == source {
				limit = limit.Smallest(limitOf(&others[i]))
			}
		}
	}
	tokens := int64(0)
	if limit.Tokens > 0 {
		tokens = budget.InputTokens(content) + cmp.Or(budget.OutputTokens(m), defaultOutputTokens)
	}
	room, refusal := c.Limits.Reserve(source, limit, r.Payer.Turn, tokens)
	if refusal != nil {
		return nil, refusal
	}
	return room, nil
}

// sourceOf returns what a provider knows the calls of a Model by.
func sourceOf(namespace string, m *v1alpha1.Model) ratelimit.Source {
	source := ratelimit.Source{Namespace: namespace, Provider: m.Spec.Provider, Endpoint: model.Endpoint(m)}
	if ref := m.Spec.SecretKeyRef; ref != nil {
		source.Secret, source.Key = ref.Name, ref.Key
	}
	if source.Endpoint == "" && source.Secret == "" {
		source.Model = m.Name
	}
	return source
}

// limitOf returns the limits that a Model states.
func limitOf(m *v1alpha1.Model) ratelimit.Limit {
	var limit ratelimit.Limit
	if stated := m.Spec.Limits; stated != nil {
		if stated.RequestsPerMinute != nil {
			limit.Requests = int64(*stated.RequestsPerMinute)
		}
		if stated.TokensPerMinute != nil {
			limit.Tokens = int64(*stated.TokensPerMinute)
		}
	}
	return limit
}

// usedTokens returns the tokens of an attempt that has ended; a negative number if that is unknown.
func (c *charge) usedTokens(response *model.Response, failure error) int64 {
	switch {
	case failure != nil && c.free(failure):
		return 0
	case failure == nil && response != nil && response.Usage.InputTokens+response.Usage.OutputTokens > 0:
		return max(response.Usage.InputTokens, 0) + max(response.Usage.OutputTokens, 0)
	default:
		return -1
	}
}
