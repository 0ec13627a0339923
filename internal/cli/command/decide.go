package command

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/access"
	"github.com/capstan-dev/capstan/internal/cli/outcome"
	"github.com/capstan-dev/capstan/internal/cli/pending"
	"github.com/capstan-dev/capstan/internal/cli/text"
	"github.com/capstan-dev/capstan/internal/streamclient"
)

func (p *program) approve() *cobra.Command {
	var d decision
	cmd := &cobra.Command{
		Use:   "approve (TURN | session/SESSION) [CALL...]",
		Short: "Let a call that waits for approval start",
		Long: `Let calls that wait for approval start. The command shows what is called, with all arguments, and asks. The
decision counts for exactly the call that was shown: with these arguments, and with the Tool as it was.

It takes the role capstan-approve. If the manager cannot be reached, arguments of any length are shown with
capstan-view as well.`,
		Example: `  kubectl capstan approve demo-1
  kubectl capstan approve demo-1 1-0 1-1
  kubectl capstan approve session/demo --all --yes`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: p.waiting(pending.Approval),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			d.decision = v1alpha1.DecisionApprove
			return p.decide(cmd.Context(), arguments[0], arguments[1:], d)
		},
	}
	cmd.Flags().BoolVarP(&d.yes, "yes", "y", false, "Do not ask.")
	cmd.Flags().BoolVar(&d.all, "all", false, "Decide about all calls of the Turn that wait for approval.")
	return cmd
}

func (p *program) reject() *cobra.Command {
	d := decision{yes: true}
	cmd := &cobra.Command{
		Use:   "reject (TURN | session/SESSION) [CALL...]",
		Short: "End a call that waits for approval before it starts",
		Long: `End calls that wait for approval before they start. The model learns that they were rejected and were not
executed, with the reason if you give one, and continues. It takes the role capstan-approve.`,
		Example: `  kubectl capstan reject demo-1
  kubectl capstan reject demo-1 1-0 --reason "It is too dear."
  kubectl capstan reject session/demo --all`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: p.waiting(pending.Approval),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			d.decision = v1alpha1.DecisionReject
			if len(d.reason) > maxReason {
				return usage("--reason has %d bytes, and may have %d", len(d.reason), maxReason)
			}
			return p.decide(cmd.Context(), arguments[0], arguments[1:], d)
		},
	}
	cmd.Flags().StringVar(&d.reason, "reason", "", "Why, for the model; at most 1024 bytes.")
	cmd.Flags().BoolVar(&d.all, "all", false, "Decide about all calls of the Turn that wait for approval.")
	return cmd
}

// maxReason is the maximum length of a reason.
const maxReason = 1024

// decision is what approve and reject do.
type decision struct {
	decision v1alpha1.Decision
	reason   string
	all, yes bool
}

func (p *program) decide(ctx context.Context, argument string, ids []string, d decision) error {
	c, err := p.connect()
	if err != nil {
		return err
	}
	turn, err := findWaiting(ctx, c, argument)
	if err != nil {
		return err
	}
	calls, err := selected(turn, ids, d.all)
	if err != nil {
		return err
	}
	calls = p.completed(ctx, c, turn, calls)
	for _, call := range calls {
		if err := p.show(turn, call); err != nil {
			return err
		}
	}
	if !d.yes {
		if err := p.confirm(fmt.Sprintf("Approve %s?", countOf(len(calls), "call"))); err != nil {
			return err
		}
	}
	user, err := c.User(ctx)
	if err != nil {
		return err
	}
	for _, call := range calls {
		result := pending.Decide(turn, call, d.decision, user)
		result.Spec.Reason = d.reason
		err := p.send(ctx, c, call, result, past(d.decision))
		if apierrors.IsForbidden(err) {
			return &access.RoleError{Role: "capstan-approve", Err: err}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func past(d v1alpha1.Decision) string {
	if d == v1alpha1.DecisionReject {
		return "rejected"
	}
	return "approved"
}

// selected returns the calls to decide about.
func selected(turn *v1alpha1.Turn, ids []string, all bool) ([]pending.Call, error) {
	calls := pending.Of(turn)
	if all {
		if len(ids) > 0 {
			return nil, usage("name calls or use --all, not both")
		}
		for _, call := range calls {
			if call.Kind == pending.Approval {
				ids = append(ids, call.ID)
			}
		}
	}
	return pending.Select(turn.Name, calls, ids, pending.Approval)
}

// completed returns calls with their whole arguments from the manager, or from the journal as far as the user may read
// it.
func (p *program) completed(
	ctx context.Context, c *access.Cluster, turn *v1alpha1.Turn, calls []pending.Call,
) []pending.Call {
	p.askWhole(ctx, c, turn, calls)
	for _, call := range calls {
		if call.Whole || turn.Status.Plan == nil || turn.Status.SessionUID == "" {
			continue
		}
		planned, err := c.Journal.Calls(ctx, journalOf(turn), turn.UID, turn.Status.Plan.OpenedAtOrdinal)
		if err != nil {
			p.note("The whole arguments cannot be read: " + err.Error())
			return calls
		}
		for i := range calls {
			if whole, ok := planned[calls[i].ID]; ok {
				calls[i].Arguments, calls[i].Whole = whole.Arguments, true
			}
		}
		return calls
	}
	return calls
}

// askWhole fills in the arguments of calls that the manager shows. Without it they stay as they are.
func (p *program) askWhole(ctx context.Context, c *access.Cluster, turn *v1alpha1.Turn, calls []pending.Call) {
	manager, err := c.Manager(p.managers)
	if err != nil {
		return
	}
	for i := range calls {
		call := &calls[i]
		if call.Whole {
			continue
		}
		answer, err := manager.Do(ctx, streamclient.Request{
			Method:  http.MethodGet,
			Session: stream.Session{Namespace: turn.Namespace, Name: turn.Spec.SessionRef.Name},
			Path:    []string{"calls"}, Query: url.Values{"turn": {turn.Name}, "call": {call.ID}}, Most: maxCalls,
		})
		if err != nil {
			return // The journal is tried next, and explains what is missing.
		}
		var found stream.WaitingCalls
		if json.Unmarshal(answer.Body, &found) != nil {
			return
		}
		for _, whole := range found.Calls {
			// The decision counts for the digest of the call, so that only the arguments of that one are shown.
			if whole.Turn.UID == turn.UID && whole.ID == call.ID && whole.CallDigest == call.CallDigest && !whole.Omitted {
				call.Arguments, call.Whole = whole.Arguments, true
			}
		}
	}
}

// maxCalls bounds the answer of the manager about one call.
const maxCalls = 64 << 20

// shownArguments bounds the arguments that are shown before a decision: more is not read by a person.
var shownArguments = text.Bound{Lines: 2000, Bytes: 128 << 10}

func (p *program) show(turn *v1alpha1.Turn, call pending.Call) error {
	lines := []text.Line{{
		{Style: text.Strong, Text: fmt.Sprintf("%s  %s", call.ID, call.Name)},
		{Style: text.Faint, Text: fmt.Sprintf("  of Turn %s in Session %s", turn.Name, turn.Spec.SessionRef.Name)},
	}}
	return p.out.Lines(append(lines, pending.Details(turn, call, shownArguments)...)...)
}

// confirm asks the user; anything but yes ends the command.
func (p *program) confirm(question string) error {
	if !p.terminal {
		return usage("there is no terminal to ask on. Read what was printed, then repeat the command with --yes")
	}
	if err := p.out.Chunk(text.Strong, "", question+" [y/N] "); err != nil {
		return err
	}
	response, err := bufio.NewReader(p.in).ReadString('\n')
	if err != nil {
		return &outcome.Error{Code: outcome.Failure, Message: "Nothing was decided."}
	}
	switch strings.ToLower(strings.TrimSpace(response)) {
	case "y", "yes":
		return nil
	default:
		return &outcome.Error{Code: outcome.Failure, Message: "Nothing was decided."}
	}
}

// send creates a ToolResult and reports what has become of it.
func (p *program) send(
	ctx context.Context, c *access.Cluster, call pending.Call, result *v1alpha1.ToolResult, verb string,
) error {
	accepted, err := c.Send(ctx, result)
	if err != nil {
		return err
	}
	switch {
	case accepted == nil:
		return p.out.Lines(
			text.Format(text.Notice, "Call %s: sent. The manager has not accepted it yet: kubectl get toolresult %s -n %s",
				call.ID, result.Name, result.Namespace),
		)
	case accepted.Status == metav1.ConditionTrue:
		return p.out.Lines(text.Format(text.Good, "Call %s (%s) %s.", call.ID, call.Name, verb))
	default:
		return fmt.Errorf("call %s: the Turn has refused it: %s: %s", call.ID, accepted.Reason, accepted.Message)
	}
}

func countOf(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
