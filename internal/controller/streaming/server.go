package streaming

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const (
	// maxHeaderBytes bounds the header of a request. Tokens of ServiceAccounts have about 1 KiB.
	maxHeaderBytes = 32 << 10
	// headerTimeout bounds the TLS handshake and the header of a request.
	headerTimeout = 10 * time.Second
	// dialTimeout bounds the connection to the leader.
	dialTimeout = 5 * time.Second
	// passedPatience is how long a caller may take to read what was passed on, at most 32 KiB: longer than the leader
	// allows, so that the leader ends the stream first.
	passedPatience = time.Minute
	// shutdownTimeout is how long streams may take to end.
	shutdownTimeout = 5 * time.Second
)

// Server accepts connections. The leader answers them, another replica passes them on.
type Server struct {
	// Listener accepts connections. The Server closes it.
	Listener net.Listener
	// Handler answers requests.
	Handler http.Handler
	// TLS has the certificate.
	TLS *tls.Config
	// Leads is closed once this process is the leader.
	Leads <-chan struct{}
	// Leader returns the address of the leader; nil without other replicas.
	Leader func(ctx context.Context) (string, error)
	// MaxPassed bounds the connections of known callers that are passed on at once. The others are bounded as those of
	// unknown callers to the leader are.
	MaxPassed int
	// Patience is how long a caller whose connection is passed on may read nothing. Default: a minute.
	Patience time.Duration
	// OnStop is called when the Server begins to end: streams end then.
	OnStop func()
	// Log receives what operators should know.
	Log logr.Logger

	connections connections
	ready       chan net.Conn
	closed      chan struct{}
	passed      chan struct{}
}

var (
	_ manager.Runnable               = (*Server)(nil)
	_ manager.LeaderElectionRunnable = (*Server)(nil)
)

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica accepts connections.
func (s *Server) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable. It returns when the context has ended.
func (s *Server) Start(ctx context.Context) error {
	s.ready, s.closed, s.passed = make(chan net.Conn), make(chan struct{}), make(chan struct{}, max(s.MaxPassed, 1))
	server := &http.Server{
		Handler: s.Handler, ReadHeaderTimeout: headerTimeout, MaxHeaderBytes: maxHeaderBytes, ConnContext: withConnection,
		TLSConfig: s.TLS, ErrorLog: quiet(s.Log),
		// Streams end by OnStop, so that callers learn why.
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	// A connection has one request: streams do not end, and a caller that was refused need not stay.
	server.SetKeepAlivesEnabled(false)
	var all sync.WaitGroup
	all.Go(func() { s.accept(ctx, &all) })
	served := make(chan error, 1)
	all.Go(func() { served <- server.Serve(tls.NewListener(handed{s}, s.TLS)) })
	var err error
	select {
	case <-ctx.Done():
	case err = <-served:
	}
	if s.OnStop != nil {
		s.OnStop()
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	close(s.closed)
	shutdown := errors.Join(s.Listener.Close(), server.Shutdown(stopping))
	s.connections.closeAll()
	all.Wait()
	if err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("serving event streams: %w", err)
	}
	if shutdown != nil {
		s.Log.Info("Closed connections of event streams that did not end", "error", shutdown.Error())
	}
	return nil
}

// accept accepts connections until the listener is closed.
func (s *Server) accept(ctx context.Context, all *sync.WaitGroup) {
	for {
		conn, err := s.Listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// Such as no file descriptors. The others go on meanwhile.
			s.Log.Info("Failed to accept a connection", "error", err.Error())
			select {
			case <-time.After(100 * time.Millisecond):
			case <-s.closed:
				return
			}
			continue
		}
		c := s.connections.add(conn)
		all.Go(func() { s.begin(ctx, c) })
	}
}

// begin gives a connection to the HTTP server, or passes it on.
func (s *Server) begin(ctx context.Context, c *connection) {
	if err := c.begin(); err != nil {
		_ = c.Close() // Who does not speak TLS gets no answer.
		return
	}
	select {
	case <-s.Leads:
		select {
		case s.ready <- c:
		case <-s.closed:
			_ = c.Close() // The process ends.
		}
		return
	default:
	}
	defer func() { _ = c.Close() }()
	if c.passed || s.Leader == nil {
		return // The caller connects again, when there is a leader.
	}
	if err := s.pass(ctx, c); err != nil {
		s.Log.V(1).Info("Failed to pass a connection on to the leader", "error", err.Error())
	}
}

// pass passes a connection on to the leader, until one side ends it.
func (s *Server) pass(ctx context.Context, c *connection) error {
	peer, err := s.dial(ctx, c)
	if err != nil {
		return err
	}
	c.patience = cmp.Or(s.Patience, passedPatience)
	leader := s.connections.adopt(peer)
	defer func() { _ = leader.Close() }()
	if _, err := leader.Write(passedOn); err != nil {
		return fmt.Errorf("writing to the leader: %w", err)
	}
	var both sync.WaitGroup
	defer both.Wait()
	both.Go(func() { splice(leader, c) })
	// The first end of a connection ends both, also that of c, which is the first to go while its caller is not known.
	defer func() { _, _ = c.Close(), leader.Close() }()
	if err := untilAdmission(c, leader); err != nil {
		return fmt.Errorf("waiting for the leader to know the caller: %w", err)
	}
	select {
	case s.passed <- struct{}{}:
		defer func() { <-s.passed }()
	default:
		return errors.New("too many connections are passed on")
	}
	s.connections.admit(c)
	splice(c, leader)
	return nil
}

// dial connects to the leader, as long as a caller waits for it.
func (s *Server) dial(ctx context.Context, c *connection) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	go func() {
		select {
		case <-c.closed:
			cancel()
		case <-ctx.Done():
		}
	}()
	address, err := s.Leader(ctx)
	if err != nil {
		return nil, fmt.Errorf("looking up the leader: %w", err)
	}
	peer, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connecting to the leader: %w", err)
	}
	return peer, nil
}

// handed is the listener of the HTTP server.
type handed struct{ *Server }

// Accept implements net.Listener.
func (h handed) Accept() (net.Conn, error) {
	select {
	case conn := <-h.ready:
		return conn, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h handed) Close() error { return nil }

// Addr implements net.Listener.
func (h handed) Addr() net.Addr { return h.Listener.Addr() }
