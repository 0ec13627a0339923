package command

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/internal/cli/follow"
	"github.com/capstan-dev/capstan/internal/cli/history"
	"github.com/capstan-dev/capstan/internal/cli/outcome"
	"github.com/capstan-dev/capstan/internal/cli/transcript"
)

func (p *program) watch() *cobra.Command {
	var o transcript.Options
	var output string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "watch (SESSION | turn/TURN)",
		Short: "Print what happens in a Session or a Turn",
		Long: `Print what happens in a Session from now on, until Ctrl-C, or in a Turn from its beginning to its end. The exit
code of a Turn tells how it ended. It takes the role capstan-view.

` + outcome.Table(),
		Example: `  kubectl capstan watch demo
  kubectl capstan watch turn/demo-1 --timeout 10m
  kubectl capstan watch demo -o json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.either,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			return p.watchTarget(cmd.Context(), arguments[0], o, output, timeout)
		},
	}
	cmd.Flags().BoolVar(&o.Full, "full", false, "Print texts of any length.")
	cmd.Flags().BoolVar(&o.Times, "times", false, "Print the time of each event, in UTC.")
	cmd.Flags().
		DurationVar(&timeout, "timeout", 0, "How long to wait for the end of a Turn. By default as long as it takes.")
	outputFlag(cmd, &output)
	return cmd
}

func (p *program) watchTarget(
	ctx context.Context, argument string, o transcript.Options, output string, timeout time.Duration,
) error {
	c, err := p.connect()
	if err != nil {
		return err
	}
	of, err := find(ctx, c, argument)
	if err != nil {
		return err
	}
	conv := &conversation{cluster: c, session: of.session}
	f, err := p.listener(c)
	if err != nil {
		return err
	}
	v := p.view(c.Command, o)
	show := func(u follow.Update) error {
		if output == "" {
			return v.show(u)
		}
		if u.Item == nil {
			return nil
		}
		return p.printEvent(of.journal(), *u.Item)
	}
	if of.turn == nil {
		from, err := c.Journal.End(ctx, of.journal(), of.head())
		if err != nil {
			return err
		}
		p.note("Watching Session " + of.session.Name + ". Ctrl-C ends that.")
		if err := p.showTurn(ctx, c, of, output); err != nil {
			return err
		}
		for u, err := range f.Session(ctx, of.journal(), from) {
			if ctx.Err() != nil {
				return v.close()
			}
			if err != nil {
				return err
			}
			if err := show(u); err != nil {
				return err
			}
		}
		return v.close()
	}
	return p.watchTurn(ctx, f, conv, of, timeout, show)
}

func (p *program) watchTurn(
	ctx context.Context, f *follow.Follower, conv *conversation, of *target, timeout time.Duration,
	show func(follow.Update) error,
) error {
	if of.session == nil {
		return usage("the Session %s of the Turn does not exist", of.turn.Spec.SessionRef.Name)
	}
	var l last
	err := p.await(ctx, timeout, of.turn.Name, conv, func(ctx context.Context) error {
		key, from := conv.cluster.Key(of.turn.Name), history.Start(of.head())
		for u, err := range f.Turn(ctx, of.journal(), key, from) {
			if err != nil {
				return err
			}
			l.note(u)
			if err := show(u); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return outcome.Of(l.turn)
}
