package executor

import (
	"context"
	"fmt"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/credential"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/sessionsecret"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/httpcall"
)

// maxFilled is the maximum size of arguments with the values of their secrets.
const maxFilled = 512 << 10

// Filled is what is sent of the arguments of a call. It is not shown to anyone else.
type Filled struct {
	// Arguments with the values of secrets in the place of the references to them.
	Arguments string
	// Headers are the secrets for the headers of the request, by name.
	Headers map[string]string
	// Carries reports whether the request has a value, which is for its host alone.
	Carries bool
	// Hidden are the values that the result must not show: all of the Session. A server may return one that an earlier
	// call has sent.
	Hidden []string
}

// Fill replaces the references to secrets of the Session in the arguments of a call whose definition permits them, and
// returns those for its headers, for a request to a URL (KV-02). The outcome is that of a call which cannot be sent;
// nil if it can. It reads the secrets at most once, and not if no tool of the Session permits a reference.
func (p Process) Fill(ctx context.Context, c Call, to string) (Filled, *tool.Outcome, error) {
	filled := Filled{Arguments: c.Arguments}
	// Arguments that are not JSON have no references. They are refused, or sent as they are.
	references, err := sessionsecret.References(c.Arguments, c.Definition.SecretArguments())
	if err != nil {
		references = nil
	}
	headers := c.Definition.SecretHeaders()
	needs := len(references) > 0 || len(headers) > 0
	if !needs && !c.HideSecrets {
		return filled, nil, nil
	}
	of := record.Session{Namespace: c.Session.Namespace, Name: c.Session.Name, UID: c.Session.UID}
	known, err := sessionsecret.Of(p.Secrets, p.Records, of).Read(ctx)
	switch {
	case apierrors.IsForbidden(err) && !needs:
		// The manager sends no values in this namespace, and the call needs none.
		return filled, nil, nil
	case apierrors.IsForbidden(err):
		refused := httpcall.NotSent(c.Call, v1alpha1.ToolCallReasonSecretUnusable,
			credential.MayNotRead(p.Account, of.Namespace, "Secret", sessionsecret.Name(of.UID)))
		return filled, &refused, nil
	case err != nil:
		return filled, nil, fmt.Errorf("filling in the secrets of call %s: %w", c.Call.ID, err)
	}
	filled.Hidden = known.Hidden()
	if !needs {
		return filled, nil, nil
	}
	return fill(ctx, c, filled, references, headers, known, to)
}

// fill replaces references by values that were read, and selects those for headers.
func fill(
	ctx context.Context,
	c Call,
	filled Filled,
	references []sessionsecret.Reference,
	headers []v1alpha1.HeaderSessionSecret,
	known *sessionsecret.Known,
	to string,
) (Filled, *tool.Outcome, error) {
	refuse := func(reason, why string) (Filled, *tool.Outcome, error) {
		refused := httpcall.NotSent(c.Call, reason, why)
		return filled, &refused, nil
	}
	u, err := url.Parse(to)
	if err != nil {
		return refuse(v1alpha1.ToolCallReasonSecretUnusable, "its url is invalid")
	}
	var names []string
	for _, r := range references {
		names = append(names, r.Name)
	}
	for _, h := range headers {
		names = append(names, h.Name)
	}
	values, why, err := known.Values(ctx, names, u)
	switch {
	case err != nil:
		return filled, nil, fmt.Errorf("filling in the secrets of call %s: %w", c.Call.ID, err)
	case why != "":
		return refuse(v1alpha1.ToolCallReasonSecretUnusable, why)
	}
	arguments, err := sessionsecret.Replace(c.Arguments, references, values, maxFilled)
	if err != nil {
		return refuse(v1alpha1.ToolCallReasonArgumentsTooLarge, err.Error())
	}
	filled.Arguments, filled.Headers, filled.Carries = arguments, map[string]string{}, true
	for _, h := range headers {
		filled.Headers[h.Name] = values[h.Name]
	}
	return filled, nil, nil
}
