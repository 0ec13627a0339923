package command

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/internal/cli/diagnosis"
	"github.com/capstan-dev/capstan/internal/cli/outcome"
)

func (p *program) doctor() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor [SESSION | turn/TURN]",
		Short: "Find what is wrong with the install, the namespace and a Session",
		Long: `Check the install (kinds, manager, policies, versions), the namespace (your permissions, Models, Agents, Tools,
Secrets, quotas) and, with an argument, a Session: why it is not ready, and what its Turns wait for. Each finding has
the command that mends it. What you may not read is reported as unknown.

The exit code is 1 if something is wrong.`,
		Example: `  kubectl capstan doctor -n shop
  kubectl capstan doctor demo`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: p.either,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			return p.diagnose(cmd.Context(), arguments)
		},
	}
}

func (p *program) diagnose(ctx context.Context, arguments []string) error {
	c, err := p.connect()
	if err != nil {
		return err
	}
	install, err := readInstall(ctx, c, p.managers)
	if err != nil {
		return err
	}
	sections := []diagnosis.Section{install.Check()}
	if len(install.Served) > 0 {
		namespace, err := readNamespace(ctx, c)
		if err != nil {
			return err
		}
		sections = append(sections, namespace.Check())
		if len(arguments) > 0 {
			session, err := readSession(ctx, c, arguments[0])
			if err != nil {
				return err
			}
			sections = append(sections, session.Check())
		}
	}
	if err := p.out.Lines(diagnosis.Lines(sections)...); err != nil {
		return err
	}
	if !diagnosis.Healthy(sections) {
		return &outcome.Error{Code: outcome.Failure}
	}
	return nil
}
