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
	// Arguments with the values of secrets in the place of the references to them, and Hidden these values.
	Arguments string
	Hidden    []string
}

// Fill replaces the references to secrets of the Session in the arguments of a call whose definition permits them, for
// a request to a URL (KV-02). The outcome is that of a call which cannot be sent; nil if it can.
func (p Process) Fill(ctx context.Context, c Call, to string) (Filled, *tool.Outcome, error) {
	filled := Filled{Arguments: c.Arguments}
	references, err := sessionsecret.References(c.Arguments, c.Definition.SecretArguments())
	if err != nil || len(references) == 0 {
		// Arguments that are not JSON have no references. They are refused, or sent as they are.
		return filled, nil, nil
	}
	refuse := func(reason, why string) (Filled, *tool.Outcome, error) {
		refused := httpcall.NotSent(c.Call, reason, why)
		return filled, &refused, nil
	}
	u, err := url.Parse(to)
	if err != nil {
		return refuse(v1alpha1.ToolCallReasonSecretUnusable, "its url is invalid")
	}
	of := record.Session{Namespace: c.Session.Namespace, Name: c.Session.Name, UID: c.Session.UID}
	var names []string
	for _, r := range references {
		names = append(names, r.Name)
	}
	values, why, err := sessionsecret.Of(p.Secrets, p.Records, of).Values(ctx, names, u)
	switch {
	case apierrors.IsForbidden(err):
		return refuse(v1alpha1.ToolCallReasonSecretUnusable,
			credential.MayNotRead(p.Account, of.Namespace, "Secret", sessionsecret.Name(of.UID)))
	case err != nil:
		return filled, nil, fmt.Errorf("filling in the secrets of call %s: %w", c.Call.ID, err)
	case why != "":
		return refuse(v1alpha1.ToolCallReasonSecretUnusable, why)
	}
	filled.Arguments, err = sessionsecret.Replace(c.Arguments, references, values, maxFilled)
	if err != nil {
		filled.Arguments = c.Arguments
		return refuse(v1alpha1.ToolCallReasonArgumentsTooLarge, err.Error())
	}
	for _, value := range values {
		filled.Hidden = append(filled.Hidden, value)
	}
	return filled, nil, nil
}
