package hook

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/runtime/excerpt"
	"github.com/capstan-dev/capstan/internal/runtime/sessionfs"
)

// Call is one run of a hook.
type Call struct {
	// Spec of the hook.
	Spec *Spec
	// Payload that it receives.
	Payload []byte
	// Tool and ToolCallID are those of the call, at an event of a tool call.
	Tool, ToolCallID string
	// Identity of the Session and the Turn.
	Identity Identity
	// Files are those of the Session; nil where there are none.
	Files *sessionfs.FS
	// Key identifies the run, also when it is repeated after a crash: a receiver may drop what it has seen before.
	Key string
}

// Executor runs hooks of one kind, each no longer than its timeout from the moment that it begins: a hook that waits
// for a place has not begun. Whatever goes wrong is an Outcome with the decision Failed. It ends when its context does.
type Executor interface {
	Run(ctx context.Context, c Call) Outcome
}

// Executors are the executors by kind. One that is nil fails every run.
type Executors struct {
	Bash, CEL, Webhook Executor
}

func (e Executors) of(s *Spec) Executor {
	switch s.Kind() {
	case KindBash:
		return e.Bash
	case KindCEL:
		return e.CEL
	case KindWebhook:
		return e.Webhook
	default:
		return nil
	}
}

// Identity is where a hook runs (HOOK-09).
type Identity struct {
	// Namespace of the Session.
	Namespace string
	// Session is its UID.
	Session types.UID
	// Turn is the UID of the Turn; empty at an event of the Session.
	Turn types.UID
	// Step of the Turn; 0 outside of a step.
	Step int32
	// OpenedAt is the ordinal in the journal at which the step was opened; 0 outside of a step.
	OpenedAt int64
	// Agent is the name of the Agent; empty for none.
	Agent string
}

// Record is the outcome of one hook, for the journal and the log.
type Record struct {
	// Hook is its id.
	Hook string `json:"hook"`
	// Decision that counted.
	Decision Decision `json:"decision"`
	// Reason of the decision, or the error.
	Reason string `json:"reason,omitempty"`
	// Cause of an error, for logs only; it may be nil.
	Cause error `json:"-"`
}

// maxReasonBytes bounds the reason of a record, and what a model or a user reads of it.
const maxReasonBytes = 1024

// Blocked is a refusal by a hook.
type Blocked struct {
	// Hook is its id.
	Hook string
	// Reason for the log and for the model.
	Reason string
	// UserMessage for the user; empty for none.
	UserMessage string
}

// Run is a run of a hook that has ended.
type Run struct {
	// Hook is its id, and Event that at which it ran.
	Hook  string
	Event Event
	// Tool and ToolCallID are those of the call, at an event of a tool call.
	Tool, ToolCallID string
	// Key identifies the run, also when it is repeated after a crash.
	Key string
	// Decision of the hook.
	Decision   Decision
	Start, End time.Time
}

// Runner runs the hooks of a Session in order. It is for one event at a time.
type Runner struct {
	// Executors run the hooks.
	Executors Executors
	// Now is the time of the payloads.
	Now func() time.Time
	// Identity of where they run.
	Identity Identity
	// Files are those of the Session; nil for none.
	Files *sessionfs.FS
	// Ended is called with each run that has ended; nil for none.
	Ended func(Run)

	matchers matchers
}

// compiled are the matchers that have been compiled.
func (r *Runner) compiled() matchers {
	if r.matchers == nil {
		r.matchers = matchers{}
	}
	return r.matchers
}

// Budgets are the time that all hooks together may take.
const (
	// StepBudget is that of the hooks before the calls of a step, and that of the hooks at a message.
	StepBudget = 60 * time.Second
	// TurnEndBudget is that of the hooks at the end of a Turn.
	TurnEndBudget = 10 * time.Second
	// SessionBudget is that of the hooks at the start of a Session, and that of the hooks at its end.
	SessionBudget = 30 * time.Second
)

// occasion is an event with its data.
type occasion struct {
	event            Event
	data             any
	tool, toolCallID string
}

// run runs one hook. The error is that of the context of the caller: the run did not happen, or its end is unknown.
func (r *Runner) run(ctx context.Context, s *Spec, o occasion) (Outcome, error) {
	if err := ctx.Err(); err != nil && !errors.Is(context.Cause(ctx), errBudget) {
		return Outcome{}, fmt.Errorf("running hook %s: %w", s.ID, err)
	}
	start := r.Now()
	outcome := r.execute(ctx, s, o)
	switch {
	case outcome.Decision != Failed:
	case errors.Is(context.Cause(ctx), errBudget):
		outcome = Fail("the hooks took longer than they may together")
	case ctx.Err() != nil:
		return Outcome{}, fmt.Errorf("running hook %s: %w", s.ID, ctx.Err())
	}
	if r.Ended != nil {
		r.Ended(Run{
			Hook: s.ID, Event: o.event, Tool: o.tool, ToolCallID: o.toolCallID, Key: r.key(s, o), Decision: outcome.Decision,
			Start: start, End: r.Now(),
		})
	}
	return outcome, nil
}

// execute calls the executor. A defect of an executor is an error of the hook, and not the end of the process.
func (r *Runner) execute(ctx context.Context, s *Spec, o occasion) (outcome Outcome) {
	defer func() {
		if p := recover(); p != nil {
			outcome = FailWith(Internal("the hook could not be run", fmt.Errorf("panic: %v\n%s", p, debug.Stack())))
		}
	}()
	executor := r.Executors.of(s)
	if executor == nil {
		return Fail("hooks of this kind cannot run here")
	}
	if ctx.Err() != nil {
		return Fail("there is no time left to run it")
	}
	payload, err := r.payload(s, o)
	if err != nil {
		return Fail("encoding the payload: %v", err)
	}
	return executor.Run(ctx, Call{
		Spec: s, Payload: payload, Tool: o.tool, ToolCallID: o.toolCallID, Identity: r.Identity, Files: r.Files,
		Key: r.key(s, o),
	})
}

func (r *Runner) payload(s *Spec, o occasion) ([]byte, error) {
	data, err := json.Marshal(o.data)
	if err != nil {
		return nil, err
	}
	p := Payload{
		Event: o.event, HookID: s.ID, SessionID: string(r.Identity.Session), Time: r.Now().UTC().Format(time.RFC3339Nano),
		Data: data,
	}
	p.TurnID, p.OrgID, p.AgentID = known(string(r.Identity.Turn)), known(r.Identity.Namespace), known(r.Identity.Agent)
	return json.Marshal(p)
}

// known is a text; nil for the empty one.
func known(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// maxRunBytes is the longest part of a key that names a call and a hook. Longer ones have a hash in its place.
const maxRunBytes = 128

// key is the idempotency key of a run. It is short enough for the cause of a record, and fits into a header.
func (r *Runner) key(s *Spec, o occasion) string {
	of := string(r.Identity.Turn)
	if of == "" {
		of = string(r.Identity.Session)
	}
	run := o.toolCallID + "/" + s.ID
	if len(run) > maxRunBytes || strings.ContainsFunc(run, func(c rune) bool { return c <= ' ' || c > '~' }) {
		hash := sha256.Sum256(fmt.Appendf(nil, "%d:%s", len(o.toolCallID), run))
		run = "sha256:" + hex.EncodeToString(hash[:])
	}
	return fmt.Sprintf("%s/%d/%s/%s", of, r.Identity.Step, o.event, run)
}

// errBudget is the cause of the end of a context whose hooks have used up their time together.
var errBudget = fmt.Errorf("the time for hooks is over: %w", context.DeadlineExceeded)

// within bounds the time of several hooks together.
func within(ctx context.Context, budget time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, budget, errBudget)
}

// record returns the Record of a hook.
func record(s *Spec, o Outcome) Record {
	return Record{Hook: s.ID, Decision: o.Decision, Reason: excerpt.Of(o.Reason, maxReasonBytes), Cause: o.Cause}
}

// blocked is the refusal of a hook.
func blocked(s *Spec, o Outcome) *Blocked {
	return &Blocked{
		Hook:        s.ID,
		Reason:      excerpt.Of(o.Reason, maxReasonBytes),
		UserMessage: excerpt.Of(o.UserMessage, maxReasonBytes),
	}
}

// failure is the refusal that a hook which failed stands for.
func failure(s *Spec, o Outcome) *Blocked {
	return blocked(s, Outcome{Reason: fmt.Sprintf("hook %s failed: %s", s.ID, o.Reason)})
}
