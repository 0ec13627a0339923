package command

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/access"
	"github.com/capstan-dev/capstan/internal/cli/follow"
	"github.com/capstan-dev/capstan/internal/cli/history"
	"github.com/capstan-dev/capstan/internal/cli/outcome"
	"github.com/capstan-dev/capstan/internal/cli/text"
)

// maxMessageBytes is the most that the message of a Turn has.
const maxMessageBytes = 64 << 10

// question is what ask sends, and how.
type question struct {
	newSession
	file, output string
	images       []string
	steer        bool
	timeout      time.Duration
}

func (p *program) ask() *cobra.Command {
	var q question
	cmd := &cobra.Command{
		Use:   "ask (SESSION | --harness HARNESS) [MESSAGE]",
		Short: "Send one message and print the response",
		Long: `Send one message to a Session, or to a new one with --harness, and print the response. What the Turn waits for
meanwhile is printed to the standard error, with the command that answers it. Without MESSAGE the message is read from
the standard input. The exit code tells how the Turn ended. It takes the role capstan-edit.

` + outcome.Table(),
		Example: `  kubectl capstan ask --harness base "How many words has this sentence?"
  kubectl capstan ask demo "And in French?" --timeout 5m
  git diff | kubectl capstan ask reviewer --file -
  kubectl capstan ask demo "Which ship is this?" --image ship.png
  kubectl capstan ask demo "Which of them is older?" -o json | jq -r .response`,
		Args: cobra.ArbitraryArgs,
		ValidArgsFunction: func(cmd *cobra.Command, arguments []string, word string) ([]string, cobra.ShellCompDirective) {
			if q.harness != "" {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return p.sessions(cmd, arguments, word)
		},
		RunE: func(cmd *cobra.Command, arguments []string) error {
			return p.sendQuestion(cmd.Context(), arguments, q)
		},
	}
	q.flags(p, cmd)
	outputFlag(cmd, &q.output)
	f := cmd.Flags()
	f.StringVarP(&q.file, "file", "f", "", "A file with the message; - for the standard input.")
	imageFlag(cmd, &q.images, "the message")
	f.BoolVar(&q.steer, "steer", false, "Add the message to the running Turn, instead of queueing it.")
	f.DurationVar(
		&q.timeout,
		"timeout",
		0,
		"How long to wait for the response, such as 5m. By default as long as it takes.",
	)
	return cmd
}

func (p *program) sendQuestion(ctx context.Context, arguments []string, q question) error {
	name := ""
	if q.harness == "" {
		if len(arguments) == 0 {
			return usage("name a Session, or create one with --harness")
		}
		name, arguments = arguments[0], arguments[1:]
	}
	message, err := p.message(ctx, arguments, q.file)
	if err != nil {
		return err
	}
	attachments, err := p.attachments(q.images)
	if err != nil {
		return err
	}
	conv, err := p.open(ctx, name, q.newSession)
	if err != nil {
		return err
	}
	if err := p.attach(ctx, conv, attachments); err != nil {
		return err
	}
	delivery := v1alpha1.DeliveryQueue
	if q.steer {
		delivery = v1alpha1.DeliverySteer
	}
	turn, from, err := conv.send(ctx, message, delivery)
	if err != nil {
		return err
	}
	if name == "" {
		p.note(fmt.Sprintf("Session %s, Turn %s", conv.session.Name, turn.Name))
	}
	waits := states{command: conv.cluster.Command}
	var l last
	err = p.await(ctx, q.timeout, turn.Name, conv, func(ctx context.Context) error {
		key := types.NamespacedName{Namespace: turn.Namespace, Name: turn.Name}
		for u, err := range p.turn(ctx, conv, key, from) {
			if err != nil {
				return err
			}
			l.note(u)
			if u.Turn != nil {
				if err := p.err.Lines(waits.lines(u.Turn)...); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if l.response == "" {
		l.response = l.turn.Status.Output
	}
	return p.printResponse(conv, l, q.output)
}

// message returns the message from the arguments, a file or the standard input.
func (p *program) message(ctx context.Context, arguments []string, file string) (string, error) {
	if len(arguments) > 0 && file != "" {
		return "", usage("name a message or a --file, not both")
	}
	if len(arguments) > 0 {
		return strings.Join(arguments, " "), nil
	}
	in := p.in
	switch {
	case file == "" && isTerminal(p.in):
		return "", usage("what is the message? Write it behind the Session, or use --file. To talk: kubectl capstan chat")
	case file != "" && file != "-":
		opened, err := os.Open(file)
		if err != nil {
			return "", fmt.Errorf("reading the message: %w", err)
		}
		defer opened.Close()
		in = opened
	}
	content, err := readInput(ctx, in, maxMessageBytes)
	if err != nil {
		return "", fmt.Errorf("reading the message: %w", err)
	}
	if len(content) > maxMessageBytes {
		return "", fmt.Errorf("the message has more than %d bytes", maxMessageBytes)
	}
	if strings.TrimSpace(string(content)) == "" {
		return "", usage("the message is empty")
	}
	return string(content), nil
}

// await runs a function until it ends, the time has passed or the user interrupts. In the last two cases the error
// tells that the Turn goes on.
func (p *program) await(
	ctx context.Context, timeout time.Duration, turn string, conv *conversation, run func(context.Context) error,
) error {
	limited, cancel := ctx, context.CancelFunc(func() {})
	if timeout > 0 {
		limited, cancel = context.WithTimeout(ctx, timeout)
	}
	defer cancel()
	err := run(limited)
	rejoin := fmt.Sprintf("%s chat %s --follow", conv.cluster.Command, conv.session.Name)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return &outcome.Error{
			Code: outcome.Interrupted, Message: fmt.Sprintf("Turn %s goes on. Rejoin it: %s", turn, rejoin),
		}
	case errors.Is(limited.Err(), context.DeadlineExceeded):
		return &outcome.Error{
			Code:    outcome.TimedOut,
			Message: fmt.Sprintf("Turn %s has not ended within %s, and goes on. Rejoin it: %s", turn, timeout, rejoin),
		}
	default:
		return err
	}
}

// follower follows Turns of a cluster by their objects.
func (p *program) follower(c *access.Cluster) *follow.Follower {
	return &follow.Follower{Client: c.WithWatch, Reader: c.Journal, Note: p.note}
}

// turn follows a Turn by its objects, or by the event stream if its journal cannot be read otherwise.
func (p *program) turn(
	ctx context.Context, conv *conversation, key types.NamespacedName, from history.Position,
) iter.Seq2[follow.Update, error] {
	return func(yield func(follow.Update, error) bool) {
		elsewhere := false
		for u, err := range p.follower(conv.cluster).Turn(ctx, conv.journal(), key, from) {
			if elsewhere = errors.Is(err, history.ErrInPostgres); elsewhere {
				break
			}
			if !yield(u, err) {
				return
			}
		}
		if !elsewhere {
			return
		}
		f, err := p.listener(conv.cluster)
		if err != nil {
			yield(follow.Update{}, err)
			return
		}
		for u, err := range f.Turn(ctx, conv.journal(), key, from) {
			if !yield(u, err) {
				return
			}
		}
	}
}

// listener follows Turns by the event stream too, once for all Turns: whether it can be used is found out once.
func (p *program) listener(c *access.Cluster) (*follow.Follower, error) {
	streams, err := c.Manager(p.managers)
	if err != nil {
		return nil, err
	}
	f := p.follower(c)
	f.Stream = streams
	return f, nil
}

// response is the output of ask as JSON.
type response struct {
	Session     string                `json:"session"`
	Turn        string                `json:"turn"`
	Phase       v1alpha1.TurnPhase    `json:"phase"`
	Reason      string                `json:"reason,omitempty"`
	Response    string                `json:"response"`
	Model       string                `json:"model,omitempty"`
	Error       *v1alpha1.TurnError   `json:"error,omitempty"`
	Summary     *v1alpha1.TurnSummary `json:"summary,omitempty"`
	SteeredInto string                `json:"steeredInto,omitempty"`
}

// printResponse prints how a Turn has ended. Its error is the exit code.
func (p *program) printResponse(conv *conversation, l last, output string) error {
	turn := l.turn
	end := outcome.Of(turn)
	if output == "json" {
		r := response{
			Session: conv.session.Name, Turn: turn.Name, Phase: turn.Status.Phase, Response: l.response,
			Model: turn.Status.Model, Error: turn.Status.Error, Summary: turn.Status.Summary,
		}
		if into := turn.Status.SteeredInto; into != nil {
			r.SteeredInto = into.Name
		}
		for _, c := range turn.Status.Conditions {
			if c.Type == v1alpha1.ConditionSucceeded {
				r.Reason = c.Reason
			}
		}
		if err := p.printJSON(r); err != nil {
			return err
		}
		return end
	}
	if turn.Status.Phase == v1alpha1.TurnPhaseSucceeded && l.response != "" {
		if err := p.out.Lines(text.Block(text.Span{}, 0, text.Plain, l.response, text.Bound{})...); err != nil {
			return err
		}
	}
	return end
}
