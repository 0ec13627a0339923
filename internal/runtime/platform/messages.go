package platform

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxMessageBytes is the most of the text of one message that is returned.
	maxMessageBytes = 8 << 10
	// maxMessages is the most messages that are returned, and defaultMessages how many without a limit.
	maxMessages, defaultMessages = 50, 10
	// maxMessagesBytes is the most of all texts together.
	maxMessagesBytes = 48 << 10
	// maxTurns is how many Turns are read to find those of a Session, and pageSize how many at once.
	maxTurns, pageSize = 10_000, 50
)

// send creates a Turn with the message. Its name follows from the call, so that a call that runs again sends nothing
// twice.
func send(ctx context.Context, c *call) (any, error) {
	if err := c.other(c.arguments.Session, "send messages to it"); err != nil {
		return nil, err
	}
	if c.Message == "" {
		return nil, errors.New("message is empty")
	}
	depth, err := c.depth(ctx)
	if err != nil {
		return nil, err
	}
	if depth > MaxDepth {
		return nil, fmt.Errorf("the message was not sent: it would follow from %d messages of agents, and at most %d may "+
			"follow from one another. Respond to the user instead", depth-1, MaxDepth)
	}
	var to object
	if err := c.do(ctx, request{method: http.MethodGet, kind: sessions, name: c.arguments.Session}, &to); err != nil {
		return nil, err
	}
	if to.Metadata.Labels[LabelArchived] != "" {
		return nil, fmt.Errorf("the message was not sent: Session %s is archived", c.arguments.Session)
	}
	name := nameOf("msg", c.id)
	turn := object{
		Metadata: metadata{Name: name, Annotations: c.marks()},
		Spec: map[string]any{
			"sessionRef": map[string]any{"name": c.arguments.Session}, "input": c.Message, "submittedBy": c.user,
		},
	}
	turn.Metadata.Annotations[AnnotationDepth] = strconv.Itoa(depth)
	if err := c.createOnce(ctx, turns, turn); err != nil {
		return nil, err
	}
	return map[string]any{"session": c.arguments.Session, "turn": name}, nil
}

// maxOrigins bounds how far the origin of a Turn is followed. Sub-agents are at most 16 levels deep.
const maxOrigins = 20

// ancestor is what is read of a Turn that a message follows from.
type ancestor struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Origin struct {
			SubAgent struct {
				Turn identity `json:"turn"`
			} `json:"subAgent"`
			Task struct {
				Root identity `json:"root"`
			} `json:"task"`
		} `json:"origin"`
	} `json:"spec"`
}

// identity is that of an object.
type identity struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// depth returns how many messages of agents the next one follows from, with itself. The Turn of a sub-agent, or of a
// background task, follows from the one that has started it. One that is gone may have been the last of the messages
// that may follow from one another.
func (c *call) depth(ctx context.Context) (int, error) {
	of := identity{Name: c.turn}
	for range maxOrigins {
		if !validName(of.Name) {
			return 0, errors.New("reading your own Turn: its name is not valid")
		}
		var turn ancestor
		err := c.do(ctx, request{method: http.MethodGet, kind: turns, name: of.Name}, &turn)
		switch {
		case of.UID != "" && (has(err, http.StatusNotFound) || err == nil && turn.Metadata.UID != of.UID):
			return 0, fmt.Errorf("the message was not sent: Turn %s, which your own follows from, is deleted, so that it is "+
				"not known how many messages of agents have led to it. Respond to the user instead", of.Name)
		case err != nil:
			return 0, fmt.Errorf("reading your own Turn: %w", err)
		}
		before, err := strconv.Atoi(turn.Metadata.Annotations[AnnotationDepth])
		if err == nil && before > 0 {
			return min(before, MaxDepth) + 1, nil
		}
		above := turn.Spec.Origin
		if of = above.SubAgent.Turn; of.Name == "" {
			of = above.Task.Root
		}
		if of.Name == "" {
			return 1, nil
		}
	}
	return MaxDepth + 1, nil
}

// message is a message of a Session, for the model.
type message struct {
	Role  string `json:"role"`
	Text  string `json:"text"`
	Turn  string `json:"turn"`
	Phase string `json:"turn_phase"`
}

// recent returns the newest messages of a Session, the newest first: the responses of its Turns and what they respond
// to.
func recent(ctx context.Context, c *call) (any, error) {
	if !validName(c.arguments.Session) {
		return nil, errors.New("session is not the name of a Session")
	}
	if err := c.do(ctx, request{method: http.MethodGet, kind: sessions, name: c.arguments.Session}, nil); err != nil {
		return nil, err
	}
	rows, err := c.turnsOf(ctx, c.arguments.Session)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(rows, func(a, b turnRow) int {
		return cmp.Or(-cmp.Compare(a.created, b.created), -strings.Compare(a.name, b.name))
	})
	wanted, left := defaultMessages, maxMessagesBytes
	if c.Limit > 0 {
		wanted = min(c.Limit, maxMessages)
	}
	messages := []message{}
	for _, row := range rows {
		if len(messages) >= wanted || left <= 0 {
			break
		}
		own, err := c.messagesOf(ctx, row.name)
		if err != nil {
			return nil, err
		}
		for _, m := range own {
			if len(messages) < wanted && left > 0 {
				m.Text = encodedHead(m.Text, min(maxMessageBytes, left))
				left -= encodedBytes(m.Text)
				messages = append(messages, m)
			}
		}
	}
	return map[string]any{"session": c.arguments.Session, "messages": messages}, nil
}

// messagesOf returns the messages of a Turn, the newest first; none for one that is gone.
func (c *call) messagesOf(ctx context.Context, name string) ([]message, error) {
	var turn struct {
		Spec struct {
			Input   string `json:"input"`
			Message struct {
				Content []struct {
					Text string `json:"text"`
				} `json:"content"`
			} `json:"message"`
		} `json:"spec"`
		Status struct {
			Phase  string `json:"phase"`
			Output string `json:"output"`
			Error  *struct {
				Message string `json:"message"`
			} `json:"error"`
		} `json:"status"`
	}
	err := c.do(ctx, request{method: http.MethodGet, kind: turns, name: name}, &turn)
	switch {
	case has(err, http.StatusNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	var messages []message
	add := func(role, text string) {
		if text != "" {
			messages = append(messages, message{Role: role, Text: text, Turn: name, Phase: turn.Status.Phase})
		}
	}
	if turn.Status.Error != nil {
		add("error", turn.Status.Error.Message)
	}
	add("agent", turn.Status.Output)
	text := turn.Spec.Input
	for i, part := range turn.Spec.Message.Content {
		if i > 0 {
			text += "\n"
		}
		if part.Text == "" {
			part.Text = "[image]"
		}
		text += part.Text
	}
	add("user", text)
	return messages, nil
}

// turnRow is a Turn in a list.
type turnRow struct{ name, phase, created string }

// turnsOf returns the Turns of a Session. A field selector for them needs selectableFields, which Kubernetes 1.30 does
// not have by default: rows of all Turns are read, which have no messages.
func (c *call) turnsOf(ctx context.Context, session string) ([]turnRow, error) {
	var found []turnRow
	query, size := url.Values{"includeObject": {"Metadata"}}, pageSize
	for read := 0; read < maxTurns; {
		page, fits, err := c.page(ctx, turns, query, size)
		if err != nil {
			return nil, err
		}
		size = fits
		of, phase := page.column("Session"), page.column("Phase")
		for _, row := range page.Rows {
			if row.cell(of) == session {
				found = append(found, turnRow{
					name: row.Object.Metadata.Name, phase: row.cell(phase), created: row.Object.Metadata.Created,
				})
			}
		}
		if page.Metadata.Continue == "" {
			return found, nil
		}
		query.Set("continue", page.Metadata.Continue)
		read += max(len(page.Rows), 1)
	}
	return nil, fmt.Errorf("the namespace has more than %d Turns: set turnTTL on its Sessions, so that old ones are "+
		"deleted", maxTurns)
}
