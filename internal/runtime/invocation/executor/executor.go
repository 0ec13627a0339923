package executor

import (
	"context"
	"errors"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/background"
	"github.com/capstan-dev/capstan/internal/runtime/config"
	"github.com/capstan-dev/capstan/internal/runtime/connection/token"
	"github.com/capstan-dev/capstan/internal/runtime/credential"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/identity"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/lease"
	"github.com/capstan-dev/capstan/internal/runtime/mcp"
	"github.com/capstan-dev/capstan/internal/runtime/memory"
	"github.com/capstan-dev/capstan/internal/runtime/payment"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/schedule"
	"github.com/capstan-dev/capstan/internal/runtime/sessiondb"
	"github.com/capstan-dev/capstan/internal/runtime/sessionfs"
	"github.com/capstan-dev/capstan/internal/runtime/title"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
	"github.com/capstan-dev/capstan/internal/runtime/trust"
)

// Executor carries out the calls of one v1alpha1.ToolExecutor.
type Executor interface {
	// Prepare returns how a call is carried out. It may read, and connect to servers, but it causes no effect: whether
	// the call may start is decided after it. The error is an *act.MissingSecret as long as a Secret is missing that
	// the call needs.
	Prepare(ctx context.Context, p Process, c Call) (Work, error)
}

// SecretUser is an Executor whose calls may need Secrets.
type SecretUser interface {
	Executor
	// MissingSecret returns the first missing Secret of the calls of a definition; nil if none is missing. It reads the
	// Secrets as Prepare does, keeps nothing of them, and sends no request.
	MissingSecret(ctx context.Context, p Process, of Asker, d *definition.Definition) (*act.MissingSecret, error)
}

// Asker is for whom a call is made.
type Asker struct {
	// Namespace of the Turn, and User that of all its messages; empty if that is not known.
	Namespace, User string
}

// Process has the resources of its process that an executor may use.
type Process struct {
	// Clock returns the current time.
	Clock func() time.Time
	// Egress sends requests.
	Egress *egress.Client
	// Clients keeps those of MCPServers between calls. Without it, each call has one of its own.
	Clients *mcp.Clients
	// Secrets reads the Secrets that tools refer to.
	Secrets credential.Reader
	// ConfigMaps reads the ConfigMaps with the certificates of servers.
	ConfigMaps trust.ConfigMapReader
	// Identity signs the identity tokens of agents; nil where none are signed.
	Identity *identity.Signer
	// Connections returns the tokens of users' connections.
	Connections *token.Source
	// Records has the stores of Sessions; nil for none.
	Records record.Store
	// Databases has the SQL databases of Sessions; nil for none.
	Databases *sessiondb.Service
	// Tasks runs background tasks; nil where none run.
	Tasks background.Host
	// Schedules keeps the Schedules that models create; nil where there are none.
	Schedules schedule.Host
	// Titles changes the titles of Sessions; nil where nothing does.
	Titles title.Host
	// Sessions reads those that share their memory; nil where none does.
	Sessions memory.Host
	// Leases keeps the leases on what tools create; nil where none are kept.
	Leases lease.Host
	// Payments pays for the calls of HTTP tools; nil where payments are disabled.
	Payments payment.Authority
	// Account is the user name of the process at the API server, for instructions in messages.
	Account string
}

// CallServer calls a tool of an MCPServer. The error is an *mcp.Error.
func (p Process) CallServer(
	ctx context.Context, caller mcp.Caller, server mcp.Server, r mcp.Request,
) (*mcp.Result, error) {
	if p.Clients == nil {
		return mcp.Call(ctx, p.Egress, server, r)
	}
	return p.Clients.Call(ctx, caller, server, r)
}

// Call is a call to prepare.
type Call struct {
	// Session and Turn that the call belongs to.
	Session journal.Session
	Turn    v1alpha1.JournalTurn
	// Harness and Agent of the Session; Agent may be empty.
	Harness, Agent string
	// User is the user who sent all messages of the Turn; empty if that is not known, or if Users are several. Origin is
	// why the manager has created the Turn, and Locale that of its response.
	User   string
	Users  v1alpha1.TurnUsers
	Origin *v1alpha1.TurnOrigin
	Locale string
	// Cause identifies the call to the stores of its Session. All attempts of the call have the same cause.
	Cause record.Cause
	// Call as it was pinned.
	Call v1alpha1.ToolCall
	// Arguments from the model.
	Arguments string
	// Definition that the call was planned with; nil when it was changed since, or is gone.
	Definition *definition.Definition
	// HideSecrets reports whether a tool of the Session may be sent its secrets, so that any result may have one.
	HideSecrets bool
	// Network is the list of destinations that the call may reach.
	Network config.NetworkAccess
	// Confined reports whether no redirect of the request may lead to another host, port or scheme.
	Confined bool
	// Files are those of the Session; nil where no process stores any.
	Files *sessionfs.FS
	// Asks reports whether the tool may ask the user for input, or for a connection: a client may answer.
	Asks bool
	// Answers are those to what the tool has asked before; nil for the first request of a call.
	Answers *tool.Answers
	// KeepsOutput reports whether an output that is longer than a result is kept.
	KeepsOutput bool
	// TraceParent is the W3C trace context of the call.
	TraceParent string
	// KeepTask records the task that the call has become at its server, so that a later process may continue it. Nil
	// where nothing is recorded: the call is sent again then.
	KeepTask func(ctx context.Context, task Task) error
	// Progress receives reports of how far the call has come; nil if nothing wants them. It returns at once.
	Progress func(mcp.Progress)
	// Claimed reports whether the call is claimed in the journal. The outcome of a claimed call follows from the
	// journal, and not from the references that the call needs to start.
	Claimed func(ctx context.Context) (bool, error)
}

// Task is what a call has become that its server continues by itself.
type Task struct {
	// ID of the task at its server.
	ID string
	// Until is the time at which the task is given up.
	Until time.Time
}

// ErrCallEnded is the cause of the end of a context when no step waits for the call any more: its Turn has ended. A
// context that ends with the process has another cause.
var ErrCallEnded = errors.New("the call is not awaited any more")

// ErrContinues is the defect of a call without an outcome: its task continues at the server.
var ErrContinues = errors.New("the task of the call continues at the server")

// ErrAgain is the defect of a call without an outcome that may run twice, and has to: not all of its effect is
// recorded.
var ErrAgain = errors.New("the call has to be carried out again")

// Work is how a call is carried out, once it may start.
type Work struct {
	// Refused is the outcome of a call that cannot start; nil if it can.
	Refused *tool.Outcome
	// Abandoned is the outcome of a call that must not start twice, if no process knows how it has ended.
	Abandoned tool.Outcome
	// Resume continues a call that has become a task at its server, in this process or an earlier one. Nil if it cannot
	// be continued.
	Resume func(ctx context.Context, task Task) (outcome tool.Outcome, defect error)
	// Do carries the call out, until it ends or asks for input. The defect is the part of a failure that is not in the
	// outcome.
	Do func(ctx context.Context) (outcome tool.Outcome, defect error)
}

// Changed returns the work of a call whose definition was changed since it was planned, or is gone.
func Changed(call v1alpha1.ToolCall, abandoned tool.Outcome) Work {
	changed := tool.CallChanged(call)
	return Work{Refused: &changed, Abandoned: abandoned}
}
