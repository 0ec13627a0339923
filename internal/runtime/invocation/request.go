package invocation

import (
	"context"
	"fmt"

	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/httpcall"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// request prepares a call of an HTTP tool. The error is an *act.Withheld as long as a Secret is missing that a header
// needs.
func (run *Runner) request(ctx context.Context, t turnstate.Turn, c Call) (work, error) {
	w := work{abandoned: httpcall.Abandoned()}
	spec := c.Definition.Spec()
	if spec == nil || spec.HTTP == nil {
		changed := tool.CallChanged(c.Call)
		w.refused = &changed
		return w, nil
	}
	secrets, withheld, err := run.secrets(ctx, t.Session.Namespace, c.Call.Name, spec.HTTP)
	if err != nil {
		return work{}, err
	}
	if withheld != nil {
		begun, err := run.begun(ctx, t, c)
		if err != nil {
			return work{}, fmt.Errorf("looking for the claim of call %s: %w", c.Call.ID, err)
		}
		if !begun {
			return work{}, withheld
		}
	}
	request, refused := httpcall.Build(httpcall.Params{
		Turn:        t.Ref.UID,
		Call:        c.Call,
		Tool:        spec,
		Arguments:   c.Arguments,
		TraceParent: t.TraceParent(c.Call.ID),
		Secrets:     secrets,
		Permits:     c.Network.Permits,
	})
	w.refused = refused
	w.do = func(ctx context.Context) (tool.Outcome, error) {
		answer, err := run.Egress.Do(ctx, request)
		return httpcall.Ended(c.Call, request, answer, err), nil
	}
	return w, nil
}
