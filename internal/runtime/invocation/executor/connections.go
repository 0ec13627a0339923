package executor

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/connection"
	"github.com/capstan-dev/capstan/internal/runtime/connection/token"
	"github.com/capstan-dev/capstan/internal/runtime/credential"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// ReadSources reads the values of the headers of a call that are secret, before the call starts. The outcome is that of
// a call which cannot be sent, because the user of the Turn has no connection; nil if it can. A missing Secret is an
// error, unless the call is claimed.
func (p Process) ReadSources(
	ctx context.Context, c Call, headers []v1alpha1.HTTPHeader, use credential.Use,
) (credential.Sources, *tool.Outcome, error) {
	from := credential.Sources{Tokens: map[string]credential.Token{}}
	for _, header := range headers {
		if header.Connection == nil {
			continue
		}
		provider := header.Connection.Provider
		if _, known := from.Tokens[provider]; known {
			continue
		}
		if refused := userless(c, header); refused != nil {
			return from, refused, nil
		}
		if c.User == "" {
			continue
		}
		of := connection.Of{Namespace: c.Session.Namespace, Provider: provider, User: c.User}
		found, err := p.Connections.Token(ctx, of)
		var missing *token.MissingError
		switch {
		case errors.As(err, &missing) && missing.None && header.SecretKeyRef != nil:
		case errors.As(err, &missing):
			outcome := tool.LacksConnection(provider, missing.Why, remedy(of), c.Asks)
			return from, &outcome, nil
		case err != nil:
			if err := p.awaitConnection(ctx, c, of, err); err != nil {
				return from, nil, err
			}
			// The call is claimed: what has become of it follows from the journal.
			return from, new(tool.NotExecuted(v1alpha1.ToolCallReasonSecretUnusable, "its connection cannot be read")), nil
		default:
			from.Tokens[provider] = credential.Token{Value: found.Value, Secret: found.Secret}
		}
	}
	var err error
	from.Secrets, err = p.AwaitSecrets(ctx, c, headers, use)
	return from, nil, err
}

// userless returns the outcome of a call that needs the connection of a user and has no single one; nil if it may be
// sent. A user who writes into the
// Turn of another one must not act by the connection of that one.
func userless(c Call, header v1alpha1.HTTPHeader) *tool.Outcome {
	provider := header.Connection.Provider
	switch {
	case c.Users == v1alpha1.TurnUsersSeveral:
		return new(tool.NotExecuted(v1alpha1.ToolCallReasonConnectionRequired, fmt.Sprintf(
			"it needs the connection of a user to %q, and several users have sent messages to this turn, so that it has "+
				"the connection of none of them. Ask for a new message that is not sent into a running turn", provider)))
	case c.User == "" && header.SecretKeyRef == nil:
		return new(tool.NotExecuted(v1alpha1.ToolCallReasonConnectionRequired, fmt.Sprintf(
			"it needs the connection of a user to %q, and the Turn has no submittedBy", provider)))
	default:
		return nil
	}
}

// remedy returns how the user of a connection sets it up.
func remedy(of connection.Of) string {
	return fmt.Sprintf("As %s: kubectl capstan connect %s --namespace %s.", of.User, of.Provider, of.Namespace)
}

// awaitConnection returns the error of a call whose connection cannot be read or refreshed now; nil if the call is
// claimed.
func (p Process) awaitConnection(ctx context.Context, c Call, of connection.Of, err error) error {
	missing := p.unavailable(c.Call.Name, of, err)
	if missing == nil {
		return err
	}
	return UnlessClaimed(ctx, c, missing)
}

// unavailable returns what a call waits for whose connection cannot be read or refreshed now; nil for another error.
func (p Process) unavailable(name string, of connection.Of, err error) *act.MissingSecret {
	var unavailable *token.UnavailableError
	switch {
	case errors.As(err, &unavailable):
		return &act.MissingSecret{Tool: name, Reason: v1alpha1.ReasonConnectionUnavailable, Problem: unavailable.Why}
	case apierrors.IsForbidden(err):
		return &act.MissingSecret{
			Tool: name, Reason: v1alpha1.ReasonRoleMissing, Problem: credential.RoleMissing(p.Account, of.Namespace,
				&v1alpha1.SecretKeyReference{Name: connection.Name(of.Provider, of.User)}),
		}
	default:
		return nil
	}
}

// MissingSource returns what keeps the headers of a request from being sent, as far as it is known without a request;
// nil for nothing. A connection that its user has to set up is not waited for here: the call asks for it.
func (p Process) MissingSource(
	ctx context.Context, of Asker, name string, headers []v1alpha1.HTTPHeader, use credential.Use,
) (*act.MissingSecret, error) {
	for _, header := range headers {
		if header.Connection == nil || of.User == "" {
			continue
		}
		of := connection.Of{Namespace: of.Namespace, Provider: header.Connection.Provider, User: of.User}
		err := p.Connections.Check(ctx, of)
		if err == nil || errors.As(err, new(*token.MissingError)) {
			continue
		}
		if missing := p.unavailable(name, of, err); missing != nil {
			return missing, nil
		}
		return nil, err
	}
	_, missing, err := p.ReadSecrets(ctx, of.Namespace, name, headers, use)
	return missing, err
}
