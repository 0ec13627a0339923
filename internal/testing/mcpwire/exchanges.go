package mcpwire

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Exchange is a request of HTTP, with its message, and the messages that the server has sent in response.
type Exchange struct {
	// Request is the verb and the method of the message, which a DELETE and a GET do not have.
	Request string
	// Session reports whether the request has the header with the id of a session.
	Session bool
	// Response is the status, whether it begins a session, and the messages in it.
	Response string
}

// String is a line of a list.
func (e Exchange) String() string {
	return fmt.Sprintf("%-32s session %-5t -> %s", e.Request, e.Session, e.Response)
}

// Conversation is the exchanges of one client, in the order of its requests.
type Conversation []Exchange

// String is a line for each exchange.
func (c Conversation) String() string {
	lines := make([]string, 0, len(c))
	for _, e := range c {
		lines = append(lines, e.String())
	}
	return strings.Join(lines, "\n")
}

// Has reports whether one of the requests has a method.
func (c Conversation) Has(method string) bool {
	return slices.ContainsFunc(c, func(e Exchange) bool { return e.Request == "POST "+method })
}

const (
	// begins is the method with which the SDK's client begins a conversation.
	begins = "server/discover"
	// listens is that of the stream of notices of a server without sessions, and ends that of the notice that ends it.
	listens, ends = "subscriptions/listen", "notifications/cancelled"
)

// reader reads messages.
type reader struct {
	// groups are the conversations, each as the numbers of its requests.
	groups []*[]int
	// last is the one that the last request without a session belongs to, and listening the one with a stream of notices.
	last, listening *[]int
	// of are the conversations of requests, and sessions those of sessions.
	of        map[int]*[]int
	sessions  map[string]*[]int
	exchanges map[int]*Exchange
}

// Conversations are those that a server has seen, in the order in which they began. A session tells to which one a
// request belongs. Without one it belongs to the last: the clients of a server without sessions must not overlap.
func Conversations(messages []Message) []Conversation {
	r := reader{of: map[int]*[]int{}, sessions: map[string]*[]int{}, exchanges: map[int]*Exchange{}}
	for _, m := range messages {
		if m.From == Client {
			r.request(m)
		} else {
			r.response(m)
		}
	}
	found := make([]Conversation, 0, len(r.groups))
	for _, requests := range r.groups {
		c := make(Conversation, 0, len(*requests))
		for _, number := range *requests {
			c = append(c, *r.exchanges[number])
		}
		found = append(found, c)
	}
	return found
}

func (r *reader) request(m Message) {
	c := r.sessions[m.Session]
	switch {
	case m.Session != "" && c != nil:
	case m.Method == ends && r.listening != nil:
		c = r.listening
	case m.Method == begins || r.last == nil:
		c = &[]int{}
		r.groups, r.last = append(r.groups, c), c
	default:
		c = r.last
	}
	if m.Method == listens {
		r.listening = c
	}
	*c = append(*c, m.Request)
	r.of[m.Request] = c
	r.exchanges[m.Request] = &Exchange{Request: strings.TrimSpace(m.Verb + " " + m.Method), Session: m.Session != ""}
}

func (r *reader) response(m Message) {
	e := r.exchanges[m.Request]
	if e == nil {
		return // The log begins in the middle of it.
	}
	if m.Session != "" && r.sessions[m.Session] == nil {
		r.sessions[m.Session] = r.of[m.Request]
	}
	e.add(m)
}

// add adds a message of the server.
func (e *Exchange) add(m Message) {
	if m.Status == 0 {
		e.Response += ", " + m.Method
		return
	}
	e.Response = strconv.Itoa(m.Status)
	if m.Session != "" && !e.Session {
		e.Response += " with a session"
	}
}
