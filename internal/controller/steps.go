package controller

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capstan-dev/capstan/internal/controller/budget"
	"github.com/capstan-dev/capstan/internal/controller/stores"
	"github.com/capstan-dev/capstan/internal/controller/turn"
	"github.com/capstan-dev/capstan/internal/runtime/budget/keeper"
	"github.com/capstan-dev/capstan/internal/runtime/connection/token"
	"github.com/capstan-dev/capstan/internal/runtime/credential"
	"github.com/capstan-dev/capstan/internal/runtime/hook/check"
	"github.com/capstan-dev/capstan/internal/runtime/invocation"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/mcp"
	"github.com/capstan-dev/capstan/internal/runtime/modelcall"
	"github.com/capstan-dev/capstan/internal/runtime/payment"
	"github.com/capstan-dev/capstan/internal/runtime/ratelimit"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/sessiondb"
	"github.com/capstan-dev/capstan/internal/runtime/step"
	"github.com/capstan-dev/capstan/internal/runtime/tool/inputschema"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// steps returns the runner of the steps of Turns.
func (o Options) steps(
	mgr ctrl.Manager, v *inputschema.Validator, router *stores.Router,
) (*step.Runner, error) {
	secrets := o.Policies.Guard(turn.Secrets(mgr.GetAPIReader()))
	hooks, err := check.Executors(o.Egress, secrets, o.Scripts)
	if err != nil {
		return nil, err
	}
	records := o.records(mgr.GetClient())
	return &step.Runner{
		Runner: invocation.Runner{
			Log:     journal.New(o.Store, o.journal(router)),
			Clock:   o.Clock,
			Egress:  o.Egress,
			Clients: mcp.NewClients(o.Egress, mcp.ClientsOptions{}),
			Records: records,
			Databases: &sessiondb.Service{
				Records: records, Processes: o.Queries, Writes: sessiondb.NewWrites(),
			},
			Payments: o.payments(secrets, records),
			Titles:   turn.Titles{Client: mgr.GetClient(), Live: mgr.GetAPIReader()},
			Sessions: turn.Sessions{Live: mgr.GetAPIReader()},
			Secrets:  secrets, ConfigMaps: turn.ConfigMaps(mgr.GetAPIReader()), Identity: o.Identity, Live: o.Live,
			Connections: token.NewSource(secrets, o.Egress, o.Clock),
		},
		Options: modelcall.Options{
			Models: o.Models, CallLimit: o.ModelCallLimit, OnFirstToken: turn.ObserveFirstToken,
			OnCall:  turn.ObserveModelCall,
			Budgets: keeper.New(budget.Store{Client: mgr.GetClient(), Live: mgr.GetAPIReader()}, o.Clock),
			Limits:  ratelimit.NewModels(o.Clock), LimitedModels: turn.LimitedModels(mgr.GetClient()),
		},
		ToolLimits: &ratelimit.Calls{Counter: ratelimit.NewMemory(o.Clock), OnFailure: turn.ObserveLimitFailure},
		Validator:  v,
		Traces:     o.Traces,
		Hooks:      hooks,
		SubAgents:  o.SubAgents,
		Hooked:     turn.Hooked(mgr.GetClient()),
		OnUndelivered: func(_ context.Context, t turnstate.Turn, err error) {
			mgr.GetLogger().Error(err, "Failed to append the model response to the journal; retrying",
				"namespace", t.Session.Namespace, "session", t.Session.Name, "turn", t.Ref.Name)
		},
	}, nil
}

// payments returns what pays for the calls of tools; nil where payments are disabled.
func (o Options) payments(secrets credential.Reader, records record.Store) payment.Authority {
	if !o.Payments {
		return nil
	}
	return &payment.Wallets{Egress: o.Egress, Secrets: secrets, Records: records, Clock: o.Clock}
}
