package command

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/stored"
	"github.com/capstan-dev/capstan/internal/cli/text"
)

func (p *program) storage() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "storage",
		Short: "List and print what a Session stores beside its files",
	}
	cmd.AddCommand(p.storageList(), p.storageGet())
	return cmd
}

func (p *program) storageList() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "ls SESSION [SERVICE]",
		Short: "List what a Session stores",
		Long: `List what the services of a Session store, or one of them, with size and time of the last change: the
values that its tools have set, for example. It takes the role capstan-view.`,
		Example: `  kubectl capstan storage ls demo
  kubectl capstan storage ls demo values`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: p.sessions,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			service := ""
			if len(arguments) > 1 {
				service = arguments[1]
			}
			return p.listStored(cmd.Context(), arguments[0], service, output)
		},
	}
	outputFlag(cmd, &output)
	return cmd
}

func (p *program) storageGet() *cobra.Command {
	return &cobra.Command{
		Use:   "get SESSION SERVICE KEY",
		Short: "Print what a Session stores under a key",
		Long: `Print what a service of a Session stores under a key. On a terminal control characters are shown as escape
sequences; into a pipe or a file the value is written as it is. It takes the role capstan-view.`,
		Example:           `  kubectl capstan storage get demo values city`,
		Args:              cobra.ExactArgs(3),
		ValidArgsFunction: p.sessions,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			return p.printStored(cmd.Context(), arguments[0], arguments[1], arguments[2])
		},
	}
}

// storedOf returns the services of a Session.
func (p *program) storedOf(ctx context.Context, name string) (*stored.Services, error) {
	s, err := p.storesOf(ctx, name)
	if err != nil {
		return nil, err
	}
	return &stored.Services{Manager: s.manager, Records: s.records, Note: p.note, Session: s.session}, nil
}

func (p *program) listStored(ctx context.Context, session, service, output string) error {
	of, err := p.storedOf(ctx, session)
	if err != nil {
		return err
	}
	items, err := of.List(ctx, service)
	if err != nil {
		return err
	}
	if output == "json" {
		return p.printJSON(stream.StoredList{Items: items})
	}
	if len(items) == 0 {
		return p.out.Lines(text.Of(text.Faint, "nothing is stored"))
	}
	rows := [][]string{{"SERVICE", "KEY", "BYTES", "CHANGED"}}
	for _, i := range items {
		rows = append(rows, []string{
			i.Service, i.Key, strconv.FormatInt(i.Size, 10), i.UpdatedAt.UTC().Format(time.RFC3339),
		})
	}
	return p.out.Lines(text.Table(rows)...)
}

func (p *program) printStored(ctx context.Context, session, service, key string) error {
	of, err := p.storedOf(ctx, session)
	if err != nil {
		return err
	}
	item, err := of.Read(ctx, service, key)
	if err != nil {
		return err
	}
	if item.Value == nil {
		return errors.New("the manager returned no value")
	}
	if !isTerminal(p.out.Out) {
		return p.outputBytes([]byte(*item.Value))
	}
	return p.out.Lines(text.Block(text.Span{}, 0, text.Plain, *item.Value, text.Bound{})...)
}
