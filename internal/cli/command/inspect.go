package command

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/internal/cli/inspection"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	records "github.com/capstan-dev/capstan/internal/runtime/record/kubernetes"
)

func (p *program) inspect() *cobra.Command {
	var full bool
	cmd := &cobra.Command{
		Use:   "inspect SESSION",
		Short: "Print what the next model call of a Session would be made with",
		Long: `Print what the next model call of a Session would be made with: layers, Model and fallbacks, limits,
capabilities, hooks, tools with their sources, the system prompt, and which objects do not exist. Nothing is run, and
no model is called. Objects that you may not read are named. It takes the role capstan-view.`,
		Example: `  kubectl capstan inspect demo
  kubectl capstan inspect demo --full`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.sessions,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			return p.printContext(cmd.Context(), arguments[0], full)
		},
	}
	cmd.Flags().BoolVar(&full, "full", false, "Print the whole system prompt.")
	return cmd
}

func (p *program) printContext(ctx context.Context, name string, full bool) error {
	c, err := p.connect()
	if err != nil {
		return err
	}
	session, err := findSession(ctx, c, name)
	if err != nil {
		return err
	}
	objects, err := records.ForConfig(c.Config, nil)
	if err != nil {
		return err
	}
	g := inspection.Gatherer{
		Client: c.WithWatch, Records: record.New(objects, record.Options{}),
		Messages: func(ctx context.Context) ([]event.Message, error) {
			s := journal.Session{Namespace: session.Namespace, Name: session.Name, UID: session.UID}
			return c.Journal.Messages(ctx, s, session.Status.Journal.Head)
		},
	}
	found, hidden, err := g.Of(ctx, session)
	if err != nil {
		return err
	}
	return p.out.Lines(inspection.Lines(found, hidden, full)...)
}
