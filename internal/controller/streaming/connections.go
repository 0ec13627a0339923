package streaming

import (
	"bytes"
	"container/list"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

const (
	// maxPending bounds the connections whose caller is not known yet. Beyond it the oldest one is closed.
	maxPending = 256
	// helloTimeout bounds the time until the first byte of a connection.
	helloTimeout = 10 * time.Second
)

// passedOn is how a connection begins that another replica passes on. A TLS record never begins with its first byte.
// Anyone can send it, and gains nothing: such a connection is only not passed on again.
var passedOn = []byte("CAPSTAN-PASSED-ON 1\n")

// connection is an accepted connection whose first bytes may have been read.
type connection struct {
	net.Conn
	first io.Reader
	set   *connections
	// element is its place among the pending connections; nil once its caller is known.
	element *list.Element
	once    sync.Once
}

// Read implements net.Conn.
func (c *connection) Read(p []byte) (int, error) {
	if c.first != nil {
		n, err := c.first.Read(p)
		if !errors.Is(err, io.EOF) {
			return n, err
		}
		c.first = nil
	}
	return c.Conn.Read(p)
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.once.Do(func() { c.set.remove(c) })
	return c.Conn.Close()
}

// connections are those that are open. The zero value has none.
type connections struct {
	mu      sync.Mutex
	pending list.List // of *connection, the oldest first
	open    map[*connection]struct{}
}

// add takes a new connection in. The oldest one whose caller is not known is closed if there are too many.
func (s *connections) add(conn net.Conn) *connection {
	c := &connection{Conn: conn, set: s}
	s.mu.Lock()
	if s.open == nil {
		s.open = map[*connection]struct{}{}
	}
	s.open[c] = struct{}{}
	c.element = s.pending.PushBack(c)
	var oldest *connection
	if s.pending.Len() > maxPending {
		oldest = s.pending.Front().Value.(*connection)
	}
	s.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close() // It is of no use any more.
	}
	return c
}

func (s *connections) remove(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
	s.settle(c)
}

// settle removes a connection from the pending ones. The lock is held.
func (s *connections) settle(c *connection) {
	if c.element != nil {
		s.pending.Remove(c.element)
		c.element = nil
	}
}

// admit takes note that the caller of a connection is known.
func (s *connections) admit(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle(c)
}

// closeAll closes all connections.
func (s *connections) closeAll() {
	s.mu.Lock()
	all := make([]*connection, 0, len(s.open))
	for c := range s.open {
		all = append(all, c)
	}
	s.mu.Unlock()
	for _, c := range all {
		_ = c.Close() // They are of no use any more.
	}
}

// begin reads the start of a connection, and reports whether another replica has passed it on.
func (c *connection) begin() (passed bool, err error) {
	if err := c.SetReadDeadline(time.Now().Add(helloTimeout)); err != nil {
		return false, err
	}
	first := make([]byte, 1, len(passedOn))
	if _, err := io.ReadFull(c.Conn, first); err != nil {
		return false, err
	}
	if first[0] == passedOn[0] {
		first = first[:len(passedOn)]
		if _, err := io.ReadFull(c.Conn, first[1:]); err != nil {
			return false, err
		}
		if !bytes.Equal(first, passedOn) {
			return false, errors.New("the connection does not begin with TLS")
		}
		return true, c.SetReadDeadline(time.Time{})
	}
	c.first = bytes.NewReader(first)
	return false, c.SetReadDeadline(time.Time{})
}

// connectionKey is the key of a connection in the context of its requests.
type connectionKey struct{}

// withConnection is http.Server.ConnContext for connections over TLS.
func withConnection(ctx context.Context, conn net.Conn) context.Context {
	if over, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = over.NetConn()
	}
	return context.WithValue(ctx, connectionKey{}, conn)
}

// admitted takes note that the caller of a request is known.
func admitted(ctx context.Context) {
	if c, ok := ctx.Value(connectionKey{}).(*connection); ok {
		c.set.admit(c)
	}
}
