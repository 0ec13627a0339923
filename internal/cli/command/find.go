package command

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/access"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

// target is what an argument names: a Session, or a Turn with its Session.
type target struct {
	session *v1alpha1.Session
	turn    *v1alpha1.Turn
}

// journal is that of the target.
func (t *target) journal() journal.Session {
	if t.session != nil {
		return journal.Session{Namespace: t.session.Namespace, Name: t.session.Name, UID: t.session.UID}
	}
	return journalOf(t.turn)
}

// head is the ordinal of an entry that exists; 0 if none is known.
func (t *target) head() int64 {
	if t.session == nil {
		return 0
	}
	return t.session.Status.Journal.Head
}

// journalOf is the journal of a Turn that was admitted.
func journalOf(turn *v1alpha1.Turn) journal.Session {
	return journal.Session{Namespace: turn.Namespace, Name: turn.Spec.SessionRef.Name, UID: turn.Status.SessionUID}
}

// find returns what NAME, session/NAME or turn/NAME is. A plain name is that of a Session, or else of a Turn.
func find(ctx context.Context, c *access.Cluster, argument string) (*target, error) {
	kind, name, ok := strings.Cut(argument, "/")
	if !ok {
		kind, name = "", argument
	}
	switch strings.TrimSuffix(strings.ToLower(kind), "s") {
	case "session":
		session, err := findSession(ctx, c, name)
		return &target{session: session}, err
	case "turn":
		return findTurnTarget(ctx, c, name)
	case "":
	default:
		return nil, usage("%s: name a Session or a Turn, as NAME, session/NAME or turn/NAME", argument)
	}
	session := &v1alpha1.Session{}
	err := c.Get(ctx, c.Key(name), session)
	if err == nil {
		return &target{session: session}, nil
	}
	if !access.IsMissing(err) {
		return nil, fmt.Errorf("reading Session %s: %w", name, err)
	}
	turn := &v1alpha1.Turn{}
	if c.Get(ctx, c.Key(name), turn) == nil {
		return withSession(ctx, c, turn)
	}
	return nil, fmt.Errorf(
		"namespace %s has neither a Session nor a Turn named %s. See: kubectl get sessions,turns -n %s: %w",
		c.Namespace,
		name,
		c.Namespace,
		err,
	)
}

func findSession(ctx context.Context, c *access.Cluster, name string) (*v1alpha1.Session, error) {
	session := &v1alpha1.Session{}
	err := c.Get(ctx, c.Key(name), session)
	if access.IsMissing(err) {
		return nil, fmt.Errorf("namespace %s has no Session %s. See: kubectl get sessions -n %s. For a new one: "+
			"%s ask --harness HARNESS MESSAGE: %w", c.Namespace, name, c.Namespace, c.Command, err)
	}
	if err != nil {
		return nil, fmt.Errorf("reading Session %s: %w", name, err)
	}
	return session, nil
}

func findTurn(ctx context.Context, c *access.Cluster, argument string) (*v1alpha1.Turn, error) {
	name := strings.TrimPrefix(strings.TrimPrefix(argument, "turns/"), "turn/")
	turn := &v1alpha1.Turn{}
	err := c.Get(ctx, c.Key(name), turn)
	if access.IsMissing(err) {
		return nil, fmt.Errorf(
			"namespace %s has no Turn %s. See: kubectl get turns -n %s: %w",
			c.Namespace,
			name,
			c.Namespace,
			err,
		)
	}
	if err != nil {
		return nil, fmt.Errorf("reading Turn %s: %w", name, err)
	}
	return turn, nil
}

func findTurnTarget(ctx context.Context, c *access.Cluster, name string) (*target, error) {
	turn, err := findTurn(ctx, c, name)
	if err != nil {
		return nil, err
	}
	return withSession(ctx, c, turn)
}

// withSession adds the Session of a Turn, unless it is gone.
func withSession(ctx context.Context, c *access.Cluster, turn *v1alpha1.Turn) (*target, error) {
	session := &v1alpha1.Session{}
	err := c.Get(ctx, types.NamespacedName{Namespace: turn.Namespace, Name: turn.Spec.SessionRef.Name}, session)
	switch {
	case access.IsMissing(err):
		return &target{turn: turn}, nil
	case err != nil:
		return nil, fmt.Errorf("reading Session %s: %w", turn.Spec.SessionRef.Name, err)
	case turn.Status.SessionUID != "" && turn.Status.SessionUID != session.UID:
		return &target{turn: turn}, nil // another Session of the name
	default:
		return &target{turn: turn, session: session}, nil
	}
}

// findWaiting returns the Turn that an argument names: a Turn, or the active one of a Session.
func findWaiting(ctx context.Context, c *access.Cluster, argument string) (*v1alpha1.Turn, error) {
	name, session := strings.CutPrefix(argument, "session/")
	if !session {
		turn, err := findTurn(ctx, c, argument)
		if err == nil || !access.IsMissing(err) {
			return turn, err
		}
		// A user who may only approve may not read Sessions: then the error about the Turn counts.
		of := &v1alpha1.Session{}
		if c.Get(ctx, c.Key(argument), of) != nil {
			return nil, err
		}
	}
	of, err := findSession(ctx, c, name)
	if err != nil {
		return nil, err
	}
	if of.Status.ActiveTurn == nil {
		return nil, fmt.Errorf("no Turn of Session %s is active", of.Name)
	}
	return findTurn(ctx, c, of.Status.ActiveTurn.Name)
}

// names returns the names of the objects of a list, for completion. Errors show as no names.
func names[L client.ObjectList](ctx context.Context, p *program, list L, of func(L) []string) []string {
	c, err := p.connect()
	if err != nil {
		return nil
	}
	if err := c.List(ctx, list, client.InNamespace(c.Namespace), client.Limit(maxCompletions)); err != nil {
		return nil
	}
	return of(list)
}
