package command

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/tree"
)

func (p *program) tree() *cobra.Command {
	return &cobra.Command{
		Use:   "tree (TURN | session/SESSION)",
		Short: "Print a Turn with its sub-agents",
		Long: `Print a Turn, or the active one of a Session, with the newest tool calls and with the sub-agents that its calls
run as, down to the last one. The Sessions of sub-agents are deleted some time after the Turn has ended, unless their
Tool keeps them. It takes the role capstan-view.`,
		Example: `  kubectl capstan tree demo-1
  kubectl capstan tree session/demo`,
		Args: cobra.ExactArgs(1),
		ValidArgsFunction: func(cmd *cobra.Command, arguments []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(arguments) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			all := p.turnNames(cmd.Context(), func(*v1alpha1.Turn) bool { return true })
			return all, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, arguments []string) error {
			return p.printTree(cmd.Context(), arguments[0])
		},
	}
}

func (p *program) printTree(ctx context.Context, argument string) error {
	c, err := p.connect()
	if err != nil {
		return err
	}
	root, err := findWaiting(ctx, c, argument)
	if err != nil {
		return err
	}
	var turns []v1alpha1.Turn
	err = pages(ctx, c, func(l *v1alpha1.TurnList) {
		for i := range l.Items {
			if l.Items[i].Spec.Origin != nil {
				turns = append(turns, l.Items[i])
			}
		}
	})
	if err != nil {
		return err
	}
	return p.out.Lines(tree.Lines(root, turns)...)
}
