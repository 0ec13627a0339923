package command

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/access"
	"github.com/capstan-dev/capstan/internal/cli/inspection"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	records "github.com/capstan-dev/capstan/internal/runtime/record/kubernetes"
	"github.com/capstan-dev/capstan/internal/streamclient"
)

func (p *program) inspect() *cobra.Command {
	var full bool
	cmd := &cobra.Command{
		Use:   "inspect SESSION",
		Short: "Print what the next model call of a Session would be made with",
		Long: `Print what the next model call of a Session would be made with: layers, Model and fallbacks, limits,
capabilities, hooks, tools with their sources, the system prompt, and which objects do not exist. Nothing is run, and
no model is called. The manager is asked; if it cannot be, the objects are read, and those that you may not read are
named. It takes the role capstan-view.`,
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
	found, err := p.inspected(ctx, c, session)
	if err == nil {
		return p.out.Lines(inspection.Lines(found, nil, full)...)
	}
	p.note("The manager cannot be asked, so that the objects which you may read are shown. (" + err.Error() + ")")
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
	read, hidden, err := g.Of(ctx, session)
	if err != nil {
		return err
	}
	return p.out.Lines(inspection.Lines(read.Public(), hidden, full)...)
}

// maxInspection bounds the answer of the manager: prompts, and schemas of tools.
const maxInspection = 64 << 20

// inspected asks the manager, which knows the texts of all objects.
func (p *program) inspected(
	ctx context.Context, c *access.Cluster, session *v1alpha1.Session,
) (*stream.Inspection, error) {
	manager, err := c.Manager(p.managers)
	if err != nil {
		return nil, err
	}
	answer, err := manager.Do(ctx, streamclient.Request{
		Method: http.MethodGet, Session: stream.Session{Namespace: session.Namespace, Name: session.Name},
		Path: []string{"inspect"}, Most: maxInspection,
	})
	if err != nil {
		return nil, err
	}
	found := &stream.Inspection{}
	if err := json.Unmarshal(answer.Body, found); err != nil {
		return nil, fmt.Errorf("reading the answer of the manager: %w", err)
	}
	return found, nil
}
