package streaming

import (
	"bytes"
	"container/list"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxPending bounds the connections whose caller is not known yet. Beyond it the oldest one is closed.
	maxPending = 256
	// helloTimeout bounds the time until the first byte of a connection.
	helloTimeout = 10 * time.Second
)

// passedOn is how a connection begins that another replica passes on, and admission is how the leader tells it that the
// caller is known: before a TLS record of its answer. No TLS record begins with their first byte. Anyone can send
// passedOn, and gains nothing: such a connection is only not passed on again, and its answer is not TLS alone.
var (
	passedOn  = []byte("CAPSTAN-PASSED-ON 2\n")
	admission = []byte("CAPSTAN-ADMITTED 1\n")
)

// connection is an accepted connection whose first bytes may have been read.
type connection struct {
	net.Conn
	first io.Reader
	set   *connections
	// element is its place among the pending connections; nil once its caller is known.
	element *list.Element
	once    sync.Once
	// closed is closed with the connection.
	closed chan struct{}
	// passed is set if another replica passes the connection on, and announce while that replica must be told that the
	// caller is known.
	passed   bool
	announce atomic.Bool
	// patience bounds the time of a write; zero if the writer sets deadlines.
	patience time.Duration
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

// Write implements net.Conn. TLS writes whole records, and no two at once.
func (c *connection) Write(p []byte) (int, error) {
	if c.announce.CompareAndSwap(true, false) {
		if _, err := c.Conn.Write(admission); err != nil {
			return 0, err
		}
	}
	if c.patience > 0 {
		if err := c.SetWriteDeadline(time.Now().Add(c.patience)); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(p)
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.once.Do(func() {
		c.set.remove(c)
		close(c.closed)
	})
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
	c := s.adopt(conn)
	s.mu.Lock()
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

// adopt takes in a connection whose other end is known, such as one that this process has opened.
func (s *connections) adopt(conn net.Conn) *connection {
	c := &connection{Conn: conn, set: s, closed: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[*connection]struct{}{}
	}
	s.open[c] = struct{}{}
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

// begin reads the start of a connection, and notes whether another replica has passed it on.
func (c *connection) begin() error {
	if err := c.SetReadDeadline(time.Now().Add(helloTimeout)); err != nil {
		return err
	}
	first := make([]byte, 1, len(passedOn))
	if _, err := io.ReadFull(c.Conn, first); err != nil {
		return err
	}
	if first[0] == passedOn[0] {
		first = first[:len(passedOn)]
		if _, err := io.ReadFull(c.Conn, first[1:]); err != nil {
			return err
		}
		if !bytes.Equal(first, passedOn) {
			return errors.New("the connection does not begin with TLS")
		}
		c.passed = true
		return c.SetReadDeadline(time.Time{})
	}
	c.first = bytes.NewReader(first)
	return c.SetReadDeadline(time.Time{})
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

// admitted takes note that the caller of a request is known, and tells it the replica that passes the connection on,
// with the answer.
func admitted(ctx context.Context) {
	if c, ok := ctx.Value(connectionKey{}).(*connection); ok {
		c.set.admit(c)
		c.announce.Store(c.passed)
	}
}
