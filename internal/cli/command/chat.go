package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/follow"
	"github.com/capstan-dev/capstan/internal/cli/history"
	"github.com/capstan-dev/capstan/internal/cli/outcome"
	"github.com/capstan-dev/capstan/internal/cli/text"
	"github.com/capstan-dev/capstan/internal/cli/transcript"
)

func (p *program) chat() *cobra.Command {
	var n newSession
	var rejoin bool
	var images []string
	cmd := &cobra.Command{
		Use:   "chat (SESSION | --harness HARNESS)",
		Short: "Talk with an agent",
		Long: `Talk with an agent, in a Session that exists or in a new one. Each line is a message. The words of the response
are printed as they come, where the event stream of the manager can be reached; otherwise each message when it is
complete. Tool calls are shown with their states, and waits with the command that answers them.

Ctrl-D ends the chat. Ctrl-C leaves it also while a Turn runs: the Turn goes on, and --follow rejoins it. It takes the
role capstan-edit.`,
		Example: `  kubectl capstan chat --harness base
  kubectl capstan chat demo
  kubectl capstan chat demo --image ship.png
  kubectl capstan chat demo --follow`,
		Args: func(_ *cobra.Command, arguments []string) error {
			if (len(arguments) == 1) == (n.harness != "") || len(arguments) > 1 {
				return usage("name a Session, or create one with --harness")
			}
			return nil
		},
		ValidArgsFunction: p.sessions,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			return p.talk(cmd.Context(), strings.Join(arguments, ""), n, images, rejoin)
		},
	}
	n.flags(p, cmd)
	imageFlag(cmd, &images, "the first message")
	cmd.Flags().BoolVar(&rejoin, "follow", false, "Show the active Turn from its beginning first.")
	return cmd
}

func (p *program) talk(ctx context.Context, name string, n newSession, images []string, rejoin bool) error {
	attachments, err := p.attachments(images)
	if err != nil {
		return err
	}
	conv, err := p.open(ctx, name, n)
	if err != nil {
		return err
	}
	if err := p.attach(ctx, conv, attachments); err != nil {
		return err
	}
	f, err := p.listener(conv.cluster)
	if err != nil {
		return err
	}
	p.note(fmt.Sprintf("Session %s. Ctrl-D ends the chat; Ctrl-C leaves it, and the Turn goes on.", conv.session.Name))
	var last error
	if active := conv.session.Status.ActiveTurn; active != nil {
		if !rejoin {
			p.note(fmt.Sprintf("Turn %s is active; messages wait behind it. To see it: %s chat %s --follow", active.Name,
				conv.cluster.Command, conv.session.Name))
		} else if last, err = p.rejoin(ctx, f, conv, active.Name); err != nil {
			return err
		}
	} else if rejoin {
		p.note("No Turn is active.")
	}
	lines := p.lines(ctx)
	for {
		if p.terminal {
			if err := p.out.Chunk(text.User, "", "you        "); err != nil {
				return err
			}
		}
		var line string
		select {
		case <-ctx.Done():
			return p.out.Lines(nil)
		case next, ok := <-lines:
			if !ok {
				return errors.Join(p.out.Lines(nil), last)
			}
			line = next
		}
		if strings.TrimSpace(line) == "" {
			continue
		}
		turn, from, err := conv.send(ctx, line, v1alpha1.DeliveryQueue)
		if err != nil {
			return err
		}
		if last, err = p.accompany(ctx, f, conv, turn, from, p.terminal); err != nil {
			return err
		}
	}
}

// rejoin shows a Turn from its beginning, and returns its outcome.
func (p *program) rejoin(
	ctx context.Context, f *follow.Follower, conv *conversation, turn string,
) (end, err error) {
	of, err := findTurn(ctx, conv.cluster, turn)
	if err != nil {
		return nil, err
	}
	return p.accompany(ctx, f, conv, of, history.Start(conv.session.Status.Journal.Head), false)
}

// accompany prints a Turn to its end, and returns its outcome: that a Turn fails does not end the chat, but is its exit
// code if it ends there. The message of the Turn may be on the terminal.
func (p *program) accompany(
	ctx context.Context, f *follow.Follower, conv *conversation, turn *v1alpha1.Turn, from history.Position, typed bool,
) (end, err error) {
	o := transcript.Options{}
	if typed {
		o.Shown = turn.UID
	}
	v := p.view(conv.cluster.Command, o)
	if err := v.begin(turn); err != nil {
		return nil, err
	}
	err = p.await(ctx, 0, turn.Name, conv, func(ctx context.Context) error {
		var state *v1alpha1.Turn
		ended := false
		key := types.NamespacedName{Namespace: turn.Namespace, Name: turn.Name}
		for u, err := range f.Turn(ctx, conv.journal(), key, from) {
			if err != nil {
				return err
			}
			if err := v.show(u); err != nil {
				return err
			}
			if u.Turn != nil {
				state = u.Turn
			}
			ended = ended || u.Item != nil && transcript.Ends(u.Item.Event)
		}
		var problem *outcome.Error
		if errors.As(outcome.Of(state), &problem) {
			if !ended {
				p.note(problem.Message) // a Turn that ended before it began has no events
			}
			end = &outcome.Error{Code: problem.Code}
		}
		return v.close()
	})
	return end, err
}

// maxLineBytes bounds a line that is typed or pasted.
const maxLineBytes = maxMessageBytes

// lines returns the lines of the standard input. The goroutine ends with the input: nothing can interrupt a read.
func (p *program) lines(ctx context.Context) <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(p.in)
		scanner.Buffer(nil, maxLineBytes)
		for scanner.Scan() {
			select {
			case lines <- scanner.Text():
			case <-ctx.Done():
				return
			}
		}
		if err := scanner.Err(); err != nil {
			p.note("reading the message: " + err.Error())
		}
	}()
	return lines
}
