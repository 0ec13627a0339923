// Package mcpwire records the messages that clients and a server of the Model Context Protocol exchange by streamable
// HTTP, and knows those that Capstan and the SDK's own servers exchange.
package mcpwire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// The headers that are recorded.
const (
	headerSession = "Mcp-Session-Id"
	headerKey     = "Idempotency-Key"
)

// Side is who has sent a message.
type Side string

const (
	// Client has sent a request of HTTP.
	Client Side = "client"
	// Server has sent a response, or a message in one.
	Server Side = "server"
)

// Message is a message of the protocol, or a request or a response of HTTP without one.
type Message struct {
	// Request is the number of the request of HTTP that the message belongs to, counted by the server.
	Request int  `json:"request"`
	From    Side `json:"from"`
	// Verb is that of a request.
	Verb string `json:"verb,omitempty"`
	// Status is that of a response. Messages in it come after it.
	Status int `json:"status,omitempty"`
	// Method of a request or a notice of the protocol; result or error with its code for a response of the protocol.
	Method string `json:"method,omitempty"`
	// Session is the header with the id of the session.
	Session string `json:"session,omitempty"`
	// Key is the idempotency key of a request.
	Key string `json:"key,omitempty"`
}

// Recorder passes each message on that it sees, in order.
type Recorder struct {
	note func(Message)

	mu       sync.Mutex
	requests int
}

// NewRecorder returns a Recorder that calls note with each message. It calls it once at a time.
func NewRecorder(note func(Message)) *Recorder { return &Recorder{note: note} }

// Around records the messages of a handler.
func (r *Recorder) Around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		request.Body = io.NopCloser(bytes.NewReader(body))
		number := r.next()
		r.add(Message{
			Request: number, From: Client, Verb: request.Method, Method: methodOf(body),
			Session: request.Header.Get(headerSession), Key: request.Header.Get(headerKey),
		})
		answer := &response{ResponseWriter: w, gone: request.Context().Err, number: number, add: r.add}
		defer answer.end()
		next.ServeHTTP(answer, request)
	})
}

func (r *Recorder) next() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	return r.requests
}

func (r *Recorder) add(m Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note(m)
}

// methodOf is the method of a message, what kind of a response it is, or empty if it is no message.
func methodOf(message []byte) string {
	var m struct {
		Method string          `json:"method"`
		Result json.RawMessage `json:"result"`
		Error  *struct {
			Code int `json:"code"`
		} `json:"error"`
	}
	switch {
	case json.Unmarshal(message, &m) != nil:
		return ""
	case m.Method != "":
		return m.Method
	case m.Error != nil:
		return fmt.Sprintf("error %d", m.Error.Code)
	case m.Result != nil:
		return "result"
	}
	return ""
}

// response records what a handler writes.
type response struct {
	http.ResponseWriter
	// gone returns an error once the client has closed the connection: what is written then is not sent.
	gone   func() error
	number int
	add    func(Message)
	// begun reports whether the status was written, and streams whether the body is a stream of events.
	begun, streams bool
	// rest is what was written and not recorded yet: an incomplete line of a stream, or the whole body.
	rest []byte
}

// Unwrap is for http.ResponseController.
func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Flush implements http.Flusher.
func (r *response) Flush() {
	_ = http.NewResponseController(r.ResponseWriter).Flush() // What cannot be flushed is sent at the end.
}

// WriteHeader implements http.ResponseWriter.
func (r *response) WriteHeader(status int) {
	if !r.begun {
		r.begun = true
		r.streams = strings.HasPrefix(r.Header().Get("Content-Type"), "text/event-stream")
		r.add(Message{Request: r.number, From: Server, Status: status, Session: r.Header().Get(headerSession)})
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write implements io.Writer. A message is recorded before it is sent.
func (r *response) Write(part []byte) (int, error) {
	if !r.begun {
		r.WriteHeader(http.StatusOK)
	}
	r.rest = append(r.rest, part...)
	for r.streams {
		line, rest, whole := bytes.Cut(r.rest, []byte("\n"))
		if !whole {
			break
		}
		if data, found := bytes.CutPrefix(line, []byte("data:")); found {
			r.message(data)
		}
		r.rest = rest
	}
	if !r.streams && json.Valid(r.rest) {
		r.message(r.rest)
		r.rest = nil
	}
	return r.ResponseWriter.Write(part)
}

func (r *response) message(text []byte) {
	if method := methodOf(text); method != "" && r.gone() == nil {
		r.add(Message{Request: r.number, From: Server, Method: method})
	}
}

// end records the status of a handler that has written nothing.
func (r *response) end() {
	if !r.begun {
		r.WriteHeader(http.StatusOK)
	}
}
