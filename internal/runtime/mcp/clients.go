package mcp

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/egress"
)

const (
	// DefaultMaxKept is the number of clients that are kept without ClientsOptions.Max.
	DefaultMaxKept = 256
	// DefaultIdle is how long a client is kept without ClientsOptions.Idle.
	DefaultIdle = 5 * time.Minute

	// maxKeptOfCaller is the number of clients that are kept for one Caller: its calls may run in parallel.
	maxKeptOfCaller = 8
	// maxSessionIDBytes is the maximum length of the id of a session that is kept.
	maxSessionIDBytes = 1 << 10
	// closeTimeout is how long Close waits for servers.
	closeTimeout = 3 * time.Second
)

// Caller is who calls a server. No client serves two Callers, because a server may keep what it is told in a session.
type Caller struct {
	// Namespace and Server are those of the MCPServer.
	Namespace, Server string
	// Identity is what the calls are made for, such as the UID of a Session.
	Identity string
}

// ClientsOptions are the limits of Clients.
type ClientsOptions struct {
	// Max is the number of clients that are kept. A namespace alone may have all but an eighth. Default DefaultMaxKept.
	Max int
	// Idle is how long a client is kept that is not used. Default DefaultIdle.
	Idle time.Duration
}

// Clients keeps clients of servers between calls, so that not every call begins with a handshake. A client is used by
// one call at a time: a response that is not valid ends it, with all that it has in flight. What is kept is bounded: by
// number, by time, by the size of a handshake, and by that of the id of a session.
type Clients struct {
	egress  *egress.Client
	options ClientsOptions

	mu sync.Mutex
	// idle are the clients that are kept, the last used one last.
	idle   []*kept
	closed bool
	// closing counts the clients that end their sessions.
	closing sync.WaitGroup

	made, outdated atomic.Int64
}

// kept is a client of a Caller.
type kept struct {
	*connection
	caller Caller
	// of identifies the url and the headers that it was made with.
	of    [sha256.Size]byte
	timer *time.Timer
}

// NewClients returns Clients that keep nothing yet.
func NewClients(client *egress.Client, o ClientsOptions) *Clients {
	if o.Max <= 0 {
		o.Max = DefaultMaxKept
	}
	if o.Idle <= 0 {
		o.Idle = DefaultIdle
	}
	return &Clients{egress: client, options: o}
}

// Kept is the number of clients that are kept.
func (c *Clients) Kept() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.idle)
}

// Made is the number of clients that were made so far.
func (c *Clients) Made() int64 { return c.made.Load() }

// Outdated is the number of clients that a server did not know any more.
func (c *Clients) Outdated() int64 { return c.outdated.Load() }

// Call calls a tool of a server, with a client that was kept if there is one. The error is an *Error.
//
// A call is sent once. If the server does not know the session of a kept client any more, a call that may be repeated
// is sent again in a new session. For one that may not, the server is asked for the session before: a proxy may have
// sent the call to another server already when one responds that it does not know the session.
func (c *Clients) Call(ctx context.Context, caller Caller, server Server, r Request) (*Result, error) {
	of := server.identity()
	if client := c.take(ctx, caller, of, r); client != nil {
		result, err := client.callTool(ctx, r)
		if !outdated(err) {
			c.giveBack(client, err)
			return result, err
		}
		c.drop(client)
		if !r.Repeatable || ctx.Err() != nil {
			return nil, err
		}
	}
	made, err := connect(ctx, c.egress, server, r.Permits, MaxResponseBytes)
	if err != nil {
		return nil, err
	}
	c.made.Add(1)
	result, err := made.callTool(ctx, r)
	c.giveBack(&kept{connection: made, caller: caller, of: of}, err)
	return result, err
}

// outdated reports whether a call has failed in a way that may be because its client was made long ago: the server does
// not know its session, or speaks another version of the protocol now.
func outdated(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Called && !e.Answered &&
		(e.Status == http.StatusNotFound || e.Status == http.StatusBadRequest)
}

// take returns a kept client for a call; nil for none. Those that were made for another url or other headers
// are ended.
func (c *Clients) take(ctx context.Context, caller Caller, of [sha256.Size]byte, r Request) *kept {
	c.forget(func(k *kept) bool { return k.caller == caller && k.of != of })
	client := c.last(caller)
	if client == nil {
		return nil
	}
	client.allow(r.Permits)
	if r.Repeatable || client.session.ID() == "" || client.ping(ctx) == nil {
		return client
	}
	c.drop(client)
	return nil
}

// drop ends a client that is out of date, and the others of its Caller: a server that has lost one session has probably
// lost all.
func (c *Clients) drop(client *kept) {
	c.outdated.Add(1)
	c.end(client)
	c.forget(func(k *kept) bool { return k.caller == client.caller })
}

// last takes the client of a Caller that was used last.
func (c *Clients) last(caller Caller) *kept {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, client := range slices.Backward(c.idle) {
		if client.caller == caller {
			c.idle = slices.Delete(c.idle, i, i+1)
			client.timer.Stop()
			return client
		}
	}
	return nil
}

// giveBack keeps a client after a call, unless the call has failed: what the SDK knows may be wrong then.
func (c *Clients) giveBack(client *kept, err error) {
	var e *Error
	if failed := errors.As(err, &e) && (e.Rejected == "" || !e.Answered); failed ||
		len(client.session.ID()) > maxSessionIDBytes {
		c.end(client)
		return
	}
	client.allow(nil)
	for _, surplus := range c.keep(client) {
		c.end(surplus)
	}
}

// keep adds a client to those that are kept, and returns those that are not kept any more.
func (c *Clients) keep(client *kept) []*kept {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return []*kept{client}
	}
	c.idle = append(c.idle, client)
	client.timer = time.AfterFunc(c.options.Idle, func() {
		c.forget(func(k *kept) bool { return k == client })
	})
	var surplus []*kept
	for {
		i := c.surplus(client)
		if i < 0 {
			return surplus
		}
		c.idle[i].timer.Stop()
		surplus = append(surplus, c.idle[i])
		c.idle = slices.Delete(c.idle, i, i+1)
	}
}

// surplus returns the index of a client that must go after one was added; -1 for none. It is the oldest one of the
// Caller or the namespace that has too many.
func (c *Clients) surplus(added *kept) int {
	ofCaller, namespaces := 0, map[string]int{}
	for _, k := range c.idle {
		namespaces[k.caller.Namespace]++
		if k.caller == added.caller {
			ofCaller++
		}
	}
	first := func(of func(*kept) bool) int { return slices.IndexFunc(c.idle, of) }
	if ofCaller > maxKeptOfCaller {
		return first(func(k *kept) bool { return k.caller == added.caller })
	}
	if namespace, must := surplus(namespaces, added.caller.Namespace, c.options.Max); must {
		return first(func(k *kept) bool { return k.caller.Namespace == namespace })
	}
	return -1
}

// Forget ends the clients of an MCPServer, which has changed or is gone. Calls in progress continue.
func (c *Clients) Forget(namespace, server string) {
	if c == nil {
		return
	}
	c.forget(func(k *kept) bool { return k.caller.Namespace == namespace && k.caller.Server == server })
}

// forget ends the kept clients that a function selects.
func (c *Clients) forget(of func(*kept) bool) {
	c.mu.Lock()
	var gone []*kept
	c.idle = slices.DeleteFunc(c.idle, func(k *kept) bool {
		if !of(k) {
			return false
		}
		k.timer.Stop()
		gone = append(gone, k)
		return true
	})
	c.mu.Unlock()
	for _, k := range gone {
		c.end(k)
	}
}

// end ends the session of a client at its server, without waiting for it.
func (c *Clients) end(client *kept) {
	c.closing.Add(1)
	go func() {
		defer c.closing.Done()
		_ = client.session.Close() // Nothing can be done about a session that the server keeps.
	}()
}

// Close ends all clients, and waits a moment for the servers. Nothing is kept afterwards.
func (c *Clients) Close() {
	if c == nil {
		return
	}
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.forget(func(*kept) bool { return true })
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.closing.Wait()
	}()
	select {
	case <-done:
	case <-time.After(closeTimeout):
	}
}

// identity identifies the url and the headers of a server. It reveals nothing of them.
func (s Server) identity() [sha256.Size]byte {
	parts := []string{s.URL}
	for _, header := range []http.Header{s.Header, s.Secret} {
		names := make([]string, 0, len(header))
		for name := range header {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			parts = append(parts, name)
			parts = append(parts, header[name]...)
		}
		parts = append(parts, "")
	}
	parts = append(parts, s.About, s.Trust)
	// No part has a NUL: headers cannot.
	return sha256.Sum256([]byte(strings.Join(parts, "\x00")))
}
