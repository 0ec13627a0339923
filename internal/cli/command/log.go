package command

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/internal/cli/history"
	"github.com/capstan-dev/capstan/internal/cli/text"
	"github.com/capstan-dev/capstan/internal/cli/transcript"
)

func (p *program) log() *cobra.Command {
	var o transcript.Options
	var output string
	cmd := &cobra.Command{
		Use:   "log (SESSION | turn/TURN)",
		Short: "Print a conversation as a person reads it",
		Long: `Print the conversation of a Session, or the part of one Turn: messages, what the model has thought, tool calls
with their results, decisions, the outcome and the cost. Long texts are shortened; --full prints them whole.

With -o json each event is one line of JSON.`,
		Example: `  kubectl capstan log demo
  kubectl capstan log turn/demo-1 --full --times
  kubectl capstan log demo -o json | jq -r 'select(.type == "tool.completed") | .data.tool_name'`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.either,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			return p.printLog(cmd.Context(), arguments[0], o, output)
		},
	}
	cmd.Flags().BoolVar(&o.Full, "full", false, "Print texts of any length.")
	cmd.Flags().BoolVar(&o.Times, "times", false, "Print the time of each event, in UTC.")
	outputFlag(cmd, &output)
	return cmd
}

// outputFlag adds the flag for the form of the output to a command, which is refused with another form than json.
func outputFlag(cmd *cobra.Command, output *string) {
	cmd.Flags().StringVarP(output, "output", "o", "", "The form of the output: json, or text for people if it is not set.")
	forms := cobra.FixedCompletions([]string{"json"}, cobra.ShellCompDirectiveNoFileComp)
	completeFlags(cmd, map[string]complete{"output": forms})
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, arguments []string) error {
		if *output != "" && *output != "json" {
			return usage("-o %s: the only form is json", *output)
		}
		return run(cmd, arguments)
	}
}

func (p *program) printLog(ctx context.Context, argument string, o transcript.Options, output string) error {
	c, err := p.connect()
	if err != nil {
		return err
	}
	of, err := find(ctx, c, argument)
	if err != nil {
		return err
	}
	if of.journal().UID == "" {
		return p.out.Lines(
			text.Format(text.Faint, "Turn %s has not begun: its Session has no journal entry of it.", of.turn.Name),
		)
	}
	t, position, shown := transcript.New(o), history.Start(of.head()), 0
	for item, err := range c.Journal.Items(ctx, of.journal(), &position) {
		if err != nil {
			return err
		}
		if of.turn != nil && item.Turn.UID != of.turn.UID {
			continue
		}
		shown++
		if output == "json" {
			err = p.printEvent(of.journal(), item)
		} else {
			err = p.out.Lines(t.Lines(item)...)
		}
		if err != nil {
			return err
		}
	}
	if shown == 0 {
		p.note("The journal has no entry of it yet.")
	}
	return p.showTurn(ctx, c, of, output)
}
