package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
)

// connector makes the connections of one request.
type connector struct {
	client *Client
	route  Route
	// plain reports whether the request is not encrypted, and public whether it may nevertheless go to any address that
	// an encrypted one may go to.
	plain, public bool
}

// target is where a connection may be made to.
type target struct {
	address netip.AddrPort
	// roots are the certificates that its server is trusted by; nil for those of the client.
	roots *x509.CertPool
	// confirm is called once the connection is made, before anything is sent; nil for nothing.
	confirm func(context.Context) error
}

// dial connects for a request without encryption.
func (d connector) dial(ctx context.Context, network, hostPort string) (net.Conn, error) {
	conn, _, err := d.connect(ctx, network, hostPort)
	return conn, err
}

// dialTLS connects and shakes hands.
func (d connector) dialTLS(ctx context.Context, network, hostPort string) (net.Conn, error) {
	conn, to, err := d.connect(ctx, network, hostPort)
	if err != nil {
		return nil, err
	}
	settings := d.client.tls.Clone()
	settings.ServerName, _, _ = net.SplitHostPort(hostPort)
	if to.roots != nil {
		settings.RootCAs = to.roots
	}
	if d.route.Roots != nil {
		settings.RootCAs = d.route.Roots
	}
	ctx, cancel := context.WithTimeout(ctx, d.client.connect)
	defer cancel()
	secure := tls.Client(conn, settings)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secure, nil
}

// connect connects to a host: it looks it up once, and connects to what is permitted and to nothing else.
func (d connector) connect(ctx context.Context, network, hostPort string) (net.Conn, target, error) {
	ctx, cancel := context.WithTimeout(ctx, d.client.connect)
	defer cancel()
	host, port, err := net.SplitHostPort(hostPort)
	number, notNumber := strconv.ParseUint(port, 10, 16)
	if err != nil || notNumber != nil {
		return nil, target{}, failure(ReasonInvalid, "invalid host and port %q", hostPort)
	}
	targets, err := d.targets(ctx, host, uint16(number))
	if err != nil {
		return nil, target{}, err
	}
	unreachable := failure(ReasonUnreachable, "failed to connect to %s", host)
	for i, to := range targets {
		var dialer net.Dialer
		deadline, _ := ctx.Deadline()
		dialer.Timeout = time.Until(deadline) / time.Duration(len(targets)-i)
		conn, err := dialer.DialContext(ctx, network, to.address.String())
		if err != nil {
			continue
		}
		if to.confirm == nil {
			return conn, to, nil
		}
		if err = to.confirm(ctx); err == nil {
			return conn, to, nil
		}
		_ = conn.Close()
		unreachable = shown(err, host)
	}
	return nil, target{}, unreachable
}

// targets are where a connection to a host and port may be made to, at most maxAddresses.
func (d connector) targets(ctx context.Context, host string, port uint16) ([]target, error) {
	policy := d.client.policy.Load()
	if d.route.Public {
		policy = nil
	}
	if s := d.route.Service; s != nil && s.Host() == host && s.Port == int32(port) {
		return d.backends(ctx, *s, nil)
	}
	if s, ok := serviceAt(host, strconv.Itoa(int(port))); ok {
		if rule := policy.service(d.route.Namespace, d.plain, s); rule != nil {
			return d.backends(ctx, s, rule.Roots)
		}
	}
	found, why, err := d.client.lookUp(ctx, host)
	if err != nil {
		return nil, err
	}
	var permitted []target
	for _, a := range found {
		to := target{address: netip.AddrPortFrom(a.Unmap(), port)}
		switch rule := policy.address(d.route.Namespace, d.plain, to.address); {
		case len(permitted) == maxAddresses:
		case a.Zone() == "" && rule != nil && d.client.reachable(netip.AddrPortFrom(a, port)):
			to.roots = rule.Roots
			permitted = append(permitted, to)
		case (!d.plain || d.public) && d.client.permitted(a, d.route.Public) && !d.client.denied(a, port):
			permitted = append(permitted, to)
		}
	}
	if len(permitted) > 0 {
		return permitted, nil
	}
	if why == "" {
		why = "its addresses are not allowed"
	}
	d.client.refusals(host, why)
	return nil, failure(ReasonRefused, "%s does not exist, or has no allowed address", host)
}

// backends are the pods of a Service. Reading them counts for the namespace that connects, also if a rule lets it reach
// the Service of another one.
func (d connector) backends(ctx context.Context, s Service, roots *x509.CertPool) ([]target, error) {
	if d.client.services == nil {
		return nil, failure(ReasonRefused, "Services cannot be reached by this process")
	}
	found, err := d.client.services.Backends(fairshare.ChargeTo(ctx, d.route.Namespace), s)
	if err != nil {
		return nil, shown(err, s.Host())
	}
	var permitted []target
	for _, b := range found {
		if len(permitted) < maxAddresses && d.client.reachable(b.Address) {
			permitted = append(permitted, target{
				address: b.Address, roots: roots,
				confirm: func(ctx context.Context) error {
					return d.client.services.Confirm(fairshare.ChargeTo(ctx, d.route.Namespace), s, b)
				},
			})
		}
	}
	if len(permitted) == 0 {
		d.client.refusals(s.Host(), "the addresses of its pods are not allowed")
		return nil, failure(ReasonRefused, "the pods of Service %s have no allowed address", s.Name)
	}
	return permitted, nil
}

// shown is an error as users may see it.
func shown(err error, host string) *Error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	return failure(ReasonUnreachable, "the pods of %s could not be read", host)
}
