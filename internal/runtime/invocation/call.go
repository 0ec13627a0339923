package invocation

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/background"
	"github.com/capstan-dev/capstan/internal/runtime/config"
	"github.com/capstan-dev/capstan/internal/runtime/connection/token"
	"github.com/capstan-dev/capstan/internal/runtime/credential"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/identity"
	"github.com/capstan-dev/capstan/internal/runtime/invocation/executor"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/lease"
	"github.com/capstan-dev/capstan/internal/runtime/live"
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
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// Runner carries out calls.
type Runner struct {
	// Log has the claims and the outcomes of calls.
	Log *journal.Log
	// Clock returns the current time.
	Clock func() time.Time
	// Egress sends requests.
	Egress *egress.Client
	// Clients keeps those of MCPServers between calls. Without it, each call has one of its own.
	Clients *mcp.Clients
	// Secrets reads the Secrets for headers of HTTP tools.
	Secrets credential.Reader
	// ConfigMaps reads the ConfigMaps with the certificates of servers.
	ConfigMaps trust.ConfigMapReader
	// Identity signs the identity tokens of agents; nil where none are signed.
	Identity *identity.Signer
	// Connections returns the tokens of users' connections. Without it, what token endpoints issue is not kept between
	// calls.
	Connections *token.Source
	// Live receives the events that no journal has; nil for none.
	Live live.Sink
	// Records has the stores of Sessions, such as their files; nil for none.
	Records record.Store
	// Databases has the SQL databases of Sessions; nil for none.
	Databases *sessiondb.Service
	// Tasks runs the background tasks of Sessions; nil where none run.
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
	// Account is the user name of the process at the API server, for instructions in messages. Default: the account of a
	// standard installation.
	Account string
}

// Call is a tool call that this process is to carry out itself.
type Call struct {
	// Call as it was pinned.
	Call v1alpha1.ToolCall
	// Arguments from the model.
	Arguments string
	// Definition that the call was planned with; nil when it was changed since, or is gone.
	Definition *definition.Definition
	// HideSecrets reports whether a tool of the Turn may be sent secrets of the Session.
	HideSecrets bool
	// Network is the list of destinations that the call may reach.
	Network config.NetworkAccess
	// InitialFiles reads the files that the Session begins with; nil if it begins without files.
	InitialFiles func(context.Context) ([]sessionfs.Initial, error)
	// KeepsOutput reports whether an output that is longer than a result is kept.
	KeepsOutput bool
	// Attempt is its state in this process. It is the same for each execution of the attempt.
	Attempt *Attempt
	// After changes the outcome of a call that was carried out, before anything else knows it; nil for no change.
	After After
}

// After returns the outcome that counts for a call. The error is that of the context: the call has no outcome yet.
type After func(ctx context.Context, outcome tool.Outcome) (tool.Outcome, error)

// Attempt is the in-memory state of one attempt of a call that this process runs itself, so that an execution that
// failed halfway continues where it was.
type Attempt struct {
	holder string
	line   *Line

	mu      sync.Mutex
	begun   bool
	outcome *tool.Outcome
	// short reports whether the outcome has only the fields that the status of a call shows.
	short bool
}

// Line serializes the journal writes of a step's calls in this process: of two concurrent writers one would have to
// write twice.
type Line struct {
	mu sync.Mutex
}

// NewAttempt is an attempt that has not begun, under a holder of its own.
func NewAttempt(line *Line) *Attempt {
	return &Attempt{holder: uuid.NewString(), line: line}
}

// begin records, once, that the request may be sent.
func (r *Attempt) begin() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := !r.begun
	r.begun = true
	return first
}

// hasBegun reports whether the request may have been sent.
func (r *Attempt) hasBegun() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.begun
}

// end keeps the outcome until it is in the journal.
func (r *Attempt) end(outcome tool.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcome = &outcome
}

// forget drops the outcome, which the journal has.
func (r *Attempt) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcome = nil
}

// Bytes returns the size of the texts of an outcome that the journal does not have.
func (r *Attempt) Bytes() int64 {
	if outcome := r.ended(); outcome != nil {
		return act.TextBytes(*outcome)
	}
	return 0
}

// Shorten leaves the part of the outcome that the status of the call shows. The journal may have the whole outcome
// nevertheless, if the response to its append was lost.
func (r *Attempt) Shorten(call v1alpha1.ToolCall) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.outcome != nil && !r.short {
		shown := act.ShownOutcome(call, *r.outcome)
		r.outcome, r.short = &shown, true
	}
}

// ended is the outcome, if there is one.
func (r *Attempt) ended() *tool.Outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.outcome
}

// End is the result of a call.
type End struct {
	// Outcome of the call, unless Asked or Closed is set.
	Outcome tool.Outcome
	// Kept is where the journal has the outcome; its Ordinal is 0 if it does not have it.
	Kept journal.SettledRef
	// Asked is where the journal has what the tool has asked instead. Its Ordinal is 0 for nothing.
	Asked journal.SettledRef
	// Closed is the entry that has closed the step meanwhile; nil for none.
	Closed *journal.Closed
	// Defect is why a built-in tool has failed, if the outcome does not have it. It is for logs.
	Defect error
}

// Bytes returns the size of the texts of the outcome.
func (e End) Bytes() int64 { return act.TextBytes(e.Outcome) }

// CarryOut carries out one call, as once does. The error is an *act.MissingSecret as long as a Secret is missing that
// the call needs.
func (run *Runner) CarryOut(ctx context.Context, t turnstate.Turn, c Call) (End, error) {
	e := inProcess[c.Call.Executor]
	if e == nil {
		return End{}, fmt.Errorf("call %s cannot be carried out by executor %q", c.Call.ID, c.Call.Executor)
	}
	w, err := run.prepare(ctx, e, t, c)
	if err != nil {
		return End{}, err
	}
	return run.once(ctx, t, c, w)
}

// Local runs a call of a Job tool with a function of this process, as once does. The Turn must be marked as Local.
func (run *Runner) Local(
	ctx context.Context, t turnstate.Turn, c Call, do func(context.Context) tool.Outcome,
) (End, error) {
	if !t.Local {
		return End{}, fmt.Errorf("call %s: the Turn is not marked as one whose Jobs are functions", c.Call.ID)
	}
	return run.once(ctx, t, c, executor.Work{
		Abandoned: tool.CallAbandoned(),
		Do:        func(ctx context.Context) (tool.Outcome, error) { return do(ctx), nil },
	})
}

// once sends one request of a call in this process: the first, or a further one with the answers to what the tool has
// asked. An AtMostOnce call is claimed in the journal before each of them, and its outcome is appended when it ends
// (DUR-01, DUR-02): if another process has claimed it, or a claim has no outcome, the call must
// not be started again, and its outcome is the abandoned one. After an error the state of the call is unknown; it is
// safe to retry.
func (run *Runner) once(ctx context.Context, t turnstate.Turn, c Call, w executor.Work) (End, error) {
	call, state := c.Call, c.Attempt
	if !act.Claimable(call, t.Local) {
		outcome, defect, err := run.attempt(ctx, c, w)
		if err == nil && outcome.Asked != nil {
			return run.keepInput(ctx, t, call, state, *outcome.Asked)
		}
		return End{Outcome: outcome, Defect: defect}, err
	}
	claim, closed, err := run.claim(ctx, t, call, state)
	switch {
	case errors.Is(err, journal.ErrFull):
		return End{Outcome: tool.AfterInput(call, tool.CallUnclaimed())}, nil
	case err != nil:
		return End{}, err
	case closed != nil:
		return End{Closed: closed}, nil
	case claim.Settled.Ordinal != 0:
		return End{Outcome: act.OutcomeOf(claim.Settled.Call), Kept: claim.Settled}, nil
	case claim.Asked.Ordinal != 0:
		return End{Asked: claim.Asked}, nil
	}
	resumed, can := resumption(w, claim.Call)
	if claim.Call.Holder != state.holder && !can {
		return End{Outcome: w.Abandoned}, nil
	}
	outcome, defect := state.ended(), error(nil)
	if outcome == nil {
		made := w.Abandoned
		switch {
		case can:
			made, defect, err = run.attempt(ctx, c, resumed)
		case w.Refused != nil && !state.hasBegun() || w.Refused == nil && state.begin():
			made, defect, err = run.attempt(ctx, c, w)
		}
		if err != nil {
			return End{}, err
		}
		state.end(made)
		outcome = &made
	}
	if outcome.Asked != nil {
		return run.keepInput(ctx, t, call, state, *outcome.Asked)
	}
	end, err := run.keepOutcome(ctx, t, call.ID, state, *outcome)
	end.Defect = defect
	return end, err
}

// resumption returns the work that continues the task of a claimed call; false if it has none, or cannot be continued.
func resumption(w executor.Work, claim journal.ClaimedCall) (executor.Work, bool) {
	if claim.Task == "" || w.Resume == nil {
		return w, false
	}
	task := executor.Task{ID: claim.Task}
	if claim.TaskUntil != nil {
		task.Until = claim.TaskUntil.Time
	}
	w.Refused = nil
	w.Do = func(ctx context.Context) (tool.Outcome, error) { return w.Resume(ctx, task) }
	return w, true
}

// keepTask records in the journal the task that a claimed call has become.
func (run *Runner) keepTask(ctx context.Context, t turnstate.Turn, c Call, task executor.Task) error {
	state, until := c.Attempt, metav1.NewMicroTime(task.Until)
	state.line.mu.Lock()
	defer state.line.mu.Unlock()
	_, err := run.Log.KeepTask(ctx, t.Session, t.Ref, t.Step(), t.Progress.Plan.OpenedAtOrdinal, journal.ClaimedCall{
		ID: c.Call.ID, Holder: state.holder, Round: tool.InputRound(c.Call), Task: task.ID, TaskUntil: &until,
	})
	return err
}

// attempt carries out one attempt of a call, unless it cannot start. The error is that of After.
func (run *Runner) attempt(
	ctx context.Context, c Call, w executor.Work,
) (outcome tool.Outcome, defect, err error) {
	if w.Refused != nil {
		return tool.AfterInput(c.Call, *w.Refused), nil, nil
	}
	began := run.Clock()
	outcome, defect = w.Do(ctx)
	if errors.Is(defect, executor.ErrAgain) {
		return tool.Outcome{}, nil, defect
	}
	if errors.Is(defect, executor.ErrContinues) {
		return tool.Outcome{}, nil, fmt.Errorf("%w: %w", defect, ctx.Err())
	}
	outcome = tool.AfterInput(c.Call, outcome)
	if outcome.Started {
		outcome.StartedAt, outcome.FinishedAt = began, run.Clock()
	}
	if c.After != nil && outcome.Asked == nil {
		outcome, err = c.After(ctx, outcome)
	}
	outcome.Output = nil // It was kept, or is not of use.
	return outcome, defect, err
}

// claim records in the journal that the next request of the call is about to be sent.
func (run *Runner) claim(
	ctx context.Context,
	t turnstate.Turn,
	call v1alpha1.ToolCall,
	state *Attempt,
) (journal.ClaimRef, *journal.Closed, error) {
	state.line.mu.Lock()
	defer state.line.mu.Unlock()
	return run.Log.Claim(
		ctx,
		t.Session,
		t.Ref,
		t.Step(),
		t.Progress.Plan.OpenedAtOrdinal,
		journal.ClaimedCall{ID: call.ID, Holder: state.holder, Round: tool.InputRound(call)},
	)
}

// keepOutcome appends the outcome of a claimed call to the journal.
func (run *Runner) keepOutcome(
	ctx context.Context,
	t turnstate.Turn,
	call string,
	state *Attempt,
	outcome tool.Outcome,
) (End, error) {
	state.line.mu.Lock()
	defer state.line.mu.Unlock()
	opened := t.Progress.Plan.OpenedAtOrdinal
	ref, closed, err := run.Log.Settle(ctx, t.Session, t.Ref, t.Step(), opened, act.SettledOf(call, outcome))
	switch {
	case errors.Is(err, journal.ErrFull):
		// The step cannot be closed either, and the Turn ends with the results that this process has.
		return End{Outcome: outcome}, nil
	case err != nil:
		return End{}, err
	case closed != nil:
		return End{Closed: closed}, nil
	default:
		state.forget()
		return End{Outcome: act.OutcomeOf(ref.Call), Kept: ref}, nil
	}
}
