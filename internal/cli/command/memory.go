package command

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/memories"
	"github.com/capstan-dev/capstan/internal/cli/text"
	"github.com/capstan-dev/capstan/internal/runtime/memory"
)

// shownContent is how many characters of a memory a list shows.
const shownContent = 80

func (p *program) memory() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "memory",
		Short: "List, print and forget what a model remembers",
	}
	cmd.AddCommand(p.memoryList(), p.memoryGet(), p.memoryForget())
	return cmd
}

func (p *program) memoryList() *cobra.Command {
	var output string
	var all bool
	cmd := &cobra.Command{
		Use:   "ls SESSION",
		Short: "List what the model of a Session remembers",
		Long: `List what the model of a Session remembers, newest first, with the beginning of each text; as JSON with the
whole texts. It takes the role capstan-view.`,
		Example: `  kubectl capstan memory ls demo
  kubectl capstan memory ls demo --all --output json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.sessions,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			return p.listMemories(cmd.Context(), arguments[0], all, output)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "List memories that are forgotten as well.")
	outputFlag(cmd, &output)
	return cmd
}

func (p *program) memoryGet() *cobra.Command {
	return &cobra.Command{
		Use:   "get SESSION ID",
		Short: "Print what a model remembers",
		Long: `Print a memory with its kind, its tags and its times. Control characters in it are shown as escape sequences.
It takes the role capstan-view.`,
		Example:           `  kubectl capstan memory get demo mem-3f2a91c04b7d5e68`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: p.sessions,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			of, err := p.memoriesOf(cmd.Context(), arguments[0])
			if err != nil {
				return err
			}
			found, err := of.Get(cmd.Context(), arguments[1])
			if err != nil {
				return err
			}
			return p.printMemory(found)
		},
	}
}

func (p *program) memoryForget() *cobra.Command {
	return &cobra.Command{
		Use:   "forget SESSION ID",
		Short: "Make a model forget a memory",
		Long: `Make a model forget a memory: it is not recalled any more. It takes the role capstan-edit, and the manager must
be reachable.`,
		Example:           `  kubectl capstan memory forget demo mem-3f2a91c04b7d5e68`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: p.sessions,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			of, err := p.memoriesOf(cmd.Context(), arguments[0])
			if err != nil {
				return err
			}
			if err := of.Forget(cmd.Context(), arguments[1]); err != nil {
				return err
			}
			return p.out.Lines(text.Format(text.Good, "%s is forgotten.", arguments[1]))
		},
	}
}

// memoriesOf returns the memories of a Session.
func (p *program) memoriesOf(ctx context.Context, name string) (*memories.Memories, error) {
	s, err := p.storesOf(ctx, name)
	if err != nil {
		return nil, err
	}
	return &memories.Memories{
		Manager: s.manager, Records: memory.Of(s.records, s.of), Note: p.note, Session: s.session,
	}, nil
}

func (p *program) listMemories(ctx context.Context, session string, all bool, output string) error {
	of, err := p.memoriesOf(ctx, session)
	if err != nil {
		return err
	}
	items, err := of.List(ctx, all)
	if err != nil {
		return err
	}
	if output == "json" {
		return p.printJSON(stream.MemoryList{Items: items})
	}
	if len(items) == 0 {
		return p.out.Lines(text.Of(text.Faint, "nothing is remembered"))
	}
	rows := [][]string{{"ID", "KIND", "CREATED", "FORGOTTEN", "TAGS", "CONTENT"}}
	for i := range items {
		m := &items[i]
		rows = append(rows, []string{
			m.ID, m.Kind, shownTime(&m.CreatedAt), shownTime(m.ForgottenAt), strings.Join(m.Tags, ","), beginning(m.Content),
		})
	}
	return p.out.Lines(text.Table(rows)...)
}

// beginning is the beginning of a content, in one line.
func beginning(content string) string {
	line := []rune(strings.Join(strings.Fields(content), " "))
	if len(line) > shownContent {
		return string(line[:shownContent]) + "..."
	}
	return string(line)
}

func shownTime(at *time.Time) string {
	if at == nil {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}

func (p *program) printMemory(m *stream.Memory) error {
	rows := [][]string{{"id", m.ID}, {"kind", m.Kind}, {"created", shownTime(&m.CreatedAt)}}
	for _, more := range [][]string{
		{"forgotten", shownTime(m.ForgottenAt)}, {"tags", strings.Join(m.Tags, ", ")},
	} {
		if more[1] != "" {
			rows = append(rows, more)
		}
	}
	if err := p.out.Lines(text.Table(rows)...); err != nil {
		return err
	}
	return p.out.Lines(text.Block(text.Span{}, 0, text.Plain, m.Content, text.Bound{})...)
}
