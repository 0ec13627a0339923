package command

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/access"
	"github.com/capstan-dev/capstan/internal/cli/pending"
)

// maxResultBytes is the most that a ToolResult holds.
const maxResultBytes = 100 << 10

// reply is what answer sends.
type reply struct {
	result, failure, file    string
	question                 string
	set                      []string
	accept, decline, dismiss bool
}

func (p *program) answer() *cobra.Command {
	var r reply
	cmd := &cobra.Command{
		Use:   "answer (TURN | session/SESSION) [CALL]",
		Short: "Send the result of a client tool, or answer a question of a tool",
		Long: `Send what a call of a Turn waits for. Without flags the command shows what that is.

The call of a client tool waits for its result: --result, --file, or --error. The question of a tool is answered by
--set for each of its values, or ended by --decline or --dismiss. That something was done elsewhere, at an address or
as a connection to a provider, is reported by --accept.

Never answer with a secret: the journal keeps the answer. It takes the role capstan-edit.`,
		Example: `  kubectl capstan answer demo-1
  kubectl capstan answer demo-1 --result "Yes, book it."
  kubectl capstan answer demo-1 1-0 --file report.txt
  kubectl capstan answer demo-1 2-0 --question city --set name=Bern --set days=3
  kubectl capstan answer demo-1 --question github --accept`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: p.waiting(pending.Client, pending.Input, pending.Connection),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			return p.sendAnswer(cmd.Context(), arguments[0], arguments[1:], cmd.Flags().Changed("result"), r)
		},
	}
	f := cmd.Flags()
	f.StringVar(&r.result, "result", "", "The result of a client tool. It may be empty.")
	f.StringVarP(&r.file, "file", "f", "", "A file with the result of a client tool; - for the standard input.")
	f.StringVar(&r.failure, "error", "", "Why there is no result, for the model.")
	f.StringVar(&r.question, "question", "", "The id of the question, if the call has several.")
	f.StringArrayVar(&r.set, "set", nil, "A value of the answer, as name=value.")
	f.BoolVar(&r.accept, "accept", false, "Answer that it was done, without values.")
	f.BoolVar(&r.decline, "decline", false, "Refuse to answer the question.")
	f.BoolVar(&r.dismiss, "dismiss", false, "Dismiss the question without a choice.")
	cmd.MarkFlagsMutuallyExclusive("result", "file", "error", "set", "accept", "decline", "dismiss")
	return cmd
}

// empty reports whether no flag has an answer.
func (r reply) empty() bool {
	return r.file == "" && r.failure == "" && len(r.set) == 0 && !r.accept && !r.decline && !r.dismiss
}

func (p *program) sendAnswer(ctx context.Context, argument string, ids []string, hasResult bool, r reply) error {
	c, err := p.connect()
	if err != nil {
		return err
	}
	turn, err := findWaiting(ctx, c, argument)
	if err != nil {
		return err
	}
	if !hasResult && r.empty() {
		return p.showWaiting(ctx, c, turn)
	}
	kinds := []pending.Kind{pending.Input, pending.Connection}
	if hasResult || r.file != "" || r.failure != "" {
		kinds = []pending.Kind{pending.Client}
	}
	calls, err := pending.Select(turn.Name, pending.Of(turn), ids, kinds...)
	if err != nil {
		return err
	}
	user, err := c.User(ctx)
	if err != nil {
		return err
	}
	result, err := p.resultFor(ctx, turn, calls[0], r, user)
	if err != nil {
		return err
	}
	return p.send(ctx, c, calls[0], result, "answered")
}

// showWaiting prints what the calls of a Turn wait for.
func (p *program) showWaiting(ctx context.Context, c *access.Cluster, turn *v1alpha1.Turn) error {
	calls := p.completed(ctx, c, turn, pending.Of(turn))
	if len(calls) == 0 {
		return fmt.Errorf("turn %s waits for no response. See what it does: %s log turn/%s", turn.Name, c.Command, turn.Name)
	}
	for _, call := range calls {
		if err := p.out.Lines(pending.Lines(turn, call, c.Command)...); err != nil {
			return err
		}
	}
	return nil
}

func (p *program) resultFor(
	ctx context.Context, turn *v1alpha1.Turn, call pending.Call, r reply, user string,
) (*v1alpha1.ToolResult, error) {
	if call.Kind == pending.Client {
		if r.failure != "" {
			return pending.Result(turn, call, nil, &r.failure, user), nil
		}
		content, err := p.content(ctx, r)
		return pending.Result(turn, call, &content, nil, user), err
	}
	question, err := pending.Question(call, r.question)
	if err != nil {
		return nil, err
	}
	answer := v1alpha1.InputAnswer{ID: question.ID, Action: v1alpha1.InputActionAccept}
	switch {
	case r.decline:
		answer.Action = v1alpha1.InputActionDecline
	case r.dismiss:
		answer.Action = v1alpha1.InputActionCancel
	case question.Mode == v1alpha1.ToolInputModeForm:
		var schema []byte
		if question.RequestedSchema != nil {
			schema = question.RequestedSchema.Raw
		}
		content, err := pending.Content(schema, r.set)
		if err != nil {
			return nil, usageError(err.Error())
		}
		answer.Content = &v1alpha1.JSON{Raw: content}
	case len(r.set) > 0:
		return nil, usage("question %s has no values: use --accept when it is done", question.ID)
	}
	return pending.Answer(turn, call, answer, user), nil
}

// content is the result from the flags or from a file.
func (p *program) content(ctx context.Context, r reply) (string, error) {
	if r.file == "" {
		return r.result, nil
	}
	in := p.in
	if r.file != "-" {
		file, err := os.Open(r.file)
		if err != nil {
			return "", fmt.Errorf("reading the result: %w", err)
		}
		defer file.Close()
		in = file
	}
	content, err := readInput(ctx, in, maxResultBytes)
	if err != nil {
		return "", fmt.Errorf("reading the result: %w", err)
	}
	if len(content) > maxResultBytes {
		return "", fmt.Errorf("the result has more than %d bytes: shorten it", maxResultBytes)
	}
	return string(content), nil
}
