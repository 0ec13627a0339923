package command

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/access"
	"github.com/capstan-dev/capstan/internal/cli/history"
	"github.com/capstan-dev/capstan/internal/runtime/excerpt"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

// conversation is a Session that messages are sent to.
type conversation struct {
	cluster *access.Cluster
	session *v1alpha1.Session
	user    string
	// controls of every message; nil for none.
	controls *v1alpha1.TurnControls
	// attached are images that the next message is sent with.
	attached []v1alpha1.MessagePart
}

// newSession are the flags of a new Session.
type newSession struct {
	harness, agent, model, name string
}

func (n *newSession) flags(p *program, cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&n.harness, "harness", "", "Create a new Session with this Harness.")
	f.StringVar(&n.agent, "agent", "", "The Agent of the new Session.")
	f.StringVar(&n.model, "model", "", "The Model: of the new Session, or else of this message.")
	f.StringVar(&n.name, "session", "", "The name of the new Session. By default a name is made.")
	completeFlags(cmd, map[string]complete{"harness": p.harnesses, "agent": p.agents, "model": p.models})
}

// open returns the conversation of a Session that exists, or of a new one.
func (p *program) open(ctx context.Context, name string, n newSession) (*conversation, error) {
	c, err := p.connect()
	if err != nil {
		return nil, err
	}
	conv := &conversation{cluster: c}
	if n.harness == "" {
		if n.agent != "" || n.name != "" {
			return nil, usage("--agent and --session are for a new Session: use them with --harness")
		}
		if conv.session, err = findSession(ctx, c, strings.TrimPrefix(name, "session/")); err != nil {
			return nil, err
		}
		if n.model != "" {
			conv.controls = &v1alpha1.TurnControls{ModelRef: &v1alpha1.LocalReference{Name: n.model}}
		}
	} else if conv.session, err = create(ctx, c, n); err != nil {
		return nil, err
	}
	if conv.user, err = c.User(ctx); err != nil {
		return nil, err
	}
	return conv, nil
}

func create(ctx context.Context, c *access.Cluster, n newSession) (*v1alpha1.Session, error) {
	session := &v1alpha1.Session{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: n.name},
		Spec:       v1alpha1.SessionSpec{HarnessRef: v1alpha1.LocalReference{Name: n.harness}},
	}
	if session.Name == "" {
		session.Name = "chat-" + mint()
	}
	if n.agent != "" {
		session.Spec.AgentRef = &v1alpha1.LocalReference{Name: n.agent}
	}
	if n.model != "" {
		session.Spec.ModelRef = &v1alpha1.LocalReference{Name: n.model}
	}
	if err := c.Create(ctx, session); err != nil {
		return nil, fmt.Errorf("creating Session %s: %w", session.Name, err)
	}
	return session, nil
}

// mint returns letters and digits that no other object's name ends with.
func mint() string {
	return strings.ToLower(rand.Text())[:8]
}

// maxTurnName is the most characters that the name of a Turn has.
const maxTurnName = 63

// send creates a Turn with a message, and returns it with the position of the journal before it.
func (v *conversation) send(
	ctx context.Context, message string, delivery v1alpha1.Delivery,
) (*v1alpha1.Turn, history.Position, error) {
	session := v.journal()
	from := history.Start(0)
	if v.session.Status.Journal.Head > 0 || v.session.Status.Phase != "" {
		var err error
		if from, err = v.cluster.Journal.End(ctx, session, v.session.Status.Journal.Head); err != nil {
			return nil, from, err
		}
	}
	suffix := "-" + mint()
	turn := &v1alpha1.Turn{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: v.session.Namespace,
			Name:      strings.TrimRight(excerpt.Head(v.session.Name, maxTurnName-len(suffix)), "-.") + suffix,
		},
		Spec: v1alpha1.TurnSpec{
			SessionRef: v1alpha1.LocalReference{Name: v.session.Name}, Input: message, Delivery: delivery,
			SubmittedBy: v.user, Controls: v.controls,
		},
	}
	if len(v.attached) > 0 {
		turn.Spec.Input = ""
		turn.Spec.Message = &v1alpha1.TurnMessage{
			Content: append([]v1alpha1.MessagePart{{Text: message}}, v.attached...),
		}
	}
	if err := v.cluster.Create(ctx, turn); err != nil {
		return nil, from, fmt.Errorf("sending the message: %w", err)
	}
	v.attached = nil
	return turn, from, nil
}

func (v *conversation) journal() journal.Session {
	return journal.Session{Namespace: v.session.Namespace, Name: v.session.Name, UID: v.session.UID}
}
