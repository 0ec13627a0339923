package command

import (
	"context"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/pending"
)

// maxCompletions bounds the objects that one completion reads.
const maxCompletions = 500

// complete is a function of cobra that proposes words.
type complete = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

func (p *program) sessionNames(ctx context.Context) []string {
	return names(ctx, p, &v1alpha1.SessionList{}, func(l *v1alpha1.SessionList) []string {
		return pick(l.Items, func(s v1alpha1.Session) (string, bool) { return s.Name, true })
	})
}

func (p *program) turnNames(ctx context.Context, wanted func(*v1alpha1.Turn) bool) []string {
	return names(ctx, p, &v1alpha1.TurnList{}, func(l *v1alpha1.TurnList) []string {
		return pick(l.Items, func(t v1alpha1.Turn) (string, bool) { return t.Name, wanted(&t) })
	})
}

func pick[T any](items []T, name func(T) (string, bool)) []string {
	var all []string
	for _, item := range items {
		if n, ok := name(item); ok {
			all = append(all, n)
		}
	}
	return all
}

// sessions completes the first argument with the names of Sessions.
func (p *program) sessions(cmd *cobra.Command, arguments []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(arguments) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return p.sessionNames(cmd.Context()), cobra.ShellCompDirectiveNoFileComp
}

// either completes the first argument with the names of Sessions and Turns.
func (p *program) either(cmd *cobra.Command, arguments []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(arguments) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	all := p.sessionNames(cmd.Context())
	for _, turn := range p.turnNames(cmd.Context(), func(*v1alpha1.Turn) bool { return true }) {
		all = append(all, "turn/"+turn)
	}
	return all, cobra.ShellCompDirectiveNoFileComp
}

// running completes the first argument with the names of Turns that have not ended.
func (p *program) running(cmd *cobra.Command, arguments []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(arguments) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	open := p.turnNames(cmd.Context(), func(t *v1alpha1.Turn) bool { return !pending.Ended(t) })
	return open, cobra.ShellCompDirectiveNoFileComp
}

// waiting completes the name of a Turn with calls of the kinds, and then the ids of these calls.
func (p *program) waiting(kinds ...pending.Kind) complete {
	fits := func(c pending.Call) bool { return slices.Contains(kinds, c.Kind) }
	return func(cmd *cobra.Command, arguments []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(arguments) == 0 {
			return p.turnNames(cmd.Context(), func(t *v1alpha1.Turn) bool {
				return slices.ContainsFunc(pending.Of(t), fits)
			}), cobra.ShellCompDirectiveNoFileComp
		}
		c, err := p.connect()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		turn, err := findTurn(cmd.Context(), c, arguments[0])
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ids := pick(pending.Of(turn), func(c pending.Call) (string, bool) {
			return c.ID, fits(c) && !slices.Contains(arguments[1:], c.ID)
		})
		return ids, cobra.ShellCompDirectiveNoFileComp
	}
}

func (p *program) namespaces(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	c, err := p.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list := &corev1.NamespaceList{}
	if c.List(cmd.Context(), list, client.Limit(maxCompletions)) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return pick(list.Items, func(n corev1.Namespace) (string, bool) { return n.Name, true }),
		cobra.ShellCompDirectiveNoFileComp
}

func (p *program) contexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	config, err := p.flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.Sorted(maps.Keys(config.Contexts)), cobra.ShellCompDirectiveNoFileComp
}

// kinds completes the values of the flags that name a Harness, an Agent or a Model.
func (p *program) harnesses(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return names(cmd.Context(), p, &v1alpha1.HarnessList{}, func(l *v1alpha1.HarnessList) []string {
		return pick(l.Items, func(h v1alpha1.Harness) (string, bool) { return h.Name, true })
	}), cobra.ShellCompDirectiveNoFileComp
}

func (p *program) agents(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return names(cmd.Context(), p, &v1alpha1.AgentList{}, func(l *v1alpha1.AgentList) []string {
		return pick(l.Items, func(a v1alpha1.Agent) (string, bool) { return a.Name, true })
	}), cobra.ShellCompDirectiveNoFileComp
}

func (p *program) models(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return names(cmd.Context(), p, &v1alpha1.ModelList{}, func(l *v1alpha1.ModelList) []string {
		return pick(l.Items, func(m v1alpha1.Model) (string, bool) { return m.Name, true })
	}), cobra.ShellCompDirectiveNoFileComp
}

// completeFlags sets the functions that complete the values of flags.
func completeFlags(cmd *cobra.Command, flags map[string]complete) {
	for name, with := range flags {
		if err := cmd.RegisterFlagCompletionFunc(name, with); err != nil {
			panic(err) // the flag was added just before
		}
	}
}
