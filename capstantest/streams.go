package capstantest

import (
	"crypto/tls"
	"net"

	"github.com/capstan-dev/capstan/internal/controller/streaming"
	"github.com/capstan-dev/capstan/internal/runtime/live"
)

// LiveEvent is an event of a Turn that no journal has.
type LiveEvent = live.Event

// Streams serves the events of Sessions over TLS, to clients that the API server knows and that may get
// sessions/events.
type Streams struct {
	// Listener accepts connections. The kit closes it.
	Listener net.Listener
	// Certificate that clients verify.
	Certificate *tls.Certificate
}

// streams returns what receives the live events, and the settings of event streams; nil for neither.
func (o Options) streams() (live.Sink, *streaming.Options) {
	if o.Streams == nil {
		if o.OnLiveEvent == nil {
			return nil, nil
		}
		return live.Func(o.OnLiveEvent), nil
	}
	bus := &live.Bus{}
	if o.OnLiveEvent != nil {
		bus.Listen("", o.OnLiveEvent)
	}
	return bus, &streaming.Options{
		Listener: o.Streams.Listener, Bus: bus,
		Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return o.Streams.Certificate, nil },
	}
}
