package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/pending"
	"github.com/capstan-dev/capstan/internal/cli/text"
)

func (p *program) cancel() *cobra.Command {
	return &cobra.Command{
		Use:   "cancel (TURN | session/SESSION)",
		Short: "End a Turn as soon as possible",
		Long: `End a Turn, or the active one of a Session, as soon as possible: its tools are stopped. A cancelled Turn
cannot run again. The conversation stays, and the Session can be used further. It takes the role capstan-edit.`,
		Example: `  kubectl capstan cancel demo-1
  kubectl capstan cancel session/demo`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.running,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			return p.cancelTurn(cmd.Context(), arguments[0])
		},
	}
}

func (p *program) cancelTurn(ctx context.Context, argument string) error {
	c, err := p.connect()
	if err != nil {
		return err
	}
	turn, err := findWaiting(ctx, c, argument)
	if err != nil {
		return err
	}
	if pending.Ended(turn) {
		return p.out.Lines(text.Format(text.Plain, "Turn %s has ended already: %s.", turn.Name, turn.Status.Phase))
	}
	base := turn.DeepCopy()
	turn.Spec.DesiredState = v1alpha1.DesiredStateCancelled
	if err := c.Patch(ctx, turn, client.MergeFrom(base)); err != nil {
		return fmt.Errorf("cancelling Turn %s: %w", turn.Name, err)
	}
	return p.out.Lines(text.Format(text.Plain, "Turn %s is being cancelled.", turn.Name))
}
