package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/access"
	"github.com/capstan-dev/capstan/internal/cli/spending"
	"github.com/capstan-dev/capstan/internal/cli/text"
)

func (p *program) cost() *cobra.Command {
	return &cobra.Command{
		Use:   "cost [SESSION | turn/TURN]",
		Short: "Print tokens and cost of a namespace, a Session or a Turn",
		Long: `Print the tokens and the cost of all Sessions of a namespace, of the Turns of a Session, or of one Turn.
Amounts are exact. Model calls without a price are counted in the column UNPRICED. The Sessions of sub-agents
are Sessions of their own. The Budgets of the namespace follow.`,
		Example: `  kubectl capstan cost -n shop
  kubectl capstan cost demo
  kubectl capstan cost turn/demo-1`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: p.either,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			return p.printCost(cmd.Context(), arguments)
		},
	}
}

// pageSize is how many objects are read at once.
const pageSize = 250

func (p *program) printCost(ctx context.Context, arguments []string) error {
	c, err := p.connect()
	if err != nil {
		return err
	}
	if len(arguments) == 0 {
		var rows []spending.Row
		sum := spending.Row{Name: "total"}
		err := pages(ctx, c, func(l *v1alpha1.SessionList) {
			for i := range l.Items {
				row := spending.OfSession(&l.Items[i])
				rows, sum = append(rows, row), sum.Plus(row)
			}
		})
		if err != nil {
			return err
		}
		if err := p.out.Lines(spending.Lines("SESSION", rows, &sum)...); err != nil {
			return err
		}
		return p.printBudgets(ctx, c)
	}
	of, err := find(ctx, c, arguments[0])
	if err != nil {
		return err
	}
	if of.turn != nil {
		return p.out.Lines(spending.Lines("TURN", []spending.Row{spending.OfTurn(of.turn)}, nil)...)
	}
	var rows []spending.Row
	err = pages(ctx, c, func(l *v1alpha1.TurnList) {
		for i := range l.Items {
			if l.Items[i].Spec.SessionRef.Name == of.session.Name {
				rows = append(rows, spending.OfTurn(&l.Items[i]))
			}
		}
	})
	if err != nil {
		return err
	}
	// Turns that were deleted are in the totals of their Session.
	sum := spending.OfSession(of.session)
	sum.Name = "Session"
	return p.out.Lines(spending.Lines("TURN", rows, &sum)...)
}

// printBudgets prints the Budgets of the namespace, if there are any that the user may read.
func (p *program) printBudgets(ctx context.Context, c *access.Cluster) error {
	var budgets []v1alpha1.Budget
	err := pages(ctx, c, func(l *v1alpha1.BudgetList) { budgets = append(budgets, l.Items...) })
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil // An older manager has none, and the costs are printed.
	}
	if err != nil || len(budgets) == 0 {
		return err
	}
	return p.out.Lines(append([]text.Line{{}}, spending.BudgetLines(budgets)...)...)
}

// pages reads the objects of a kind in the namespace, page by page.
func pages[T any, L interface {
	*T
	client.ObjectList
}](ctx context.Context, c *access.Cluster, use func(L)) error {
	next := ""
	for {
		list := L(new(T))
		err := c.List(ctx, list, client.InNamespace(c.Namespace), client.Limit(pageSize), client.Continue(next))
		if err != nil {
			return fmt.Errorf("reading the objects of namespace %s: %w", c.Namespace, err)
		}
		use(list)
		if next = list.GetContinue(); next == "" {
			return nil
		}
	}
}
