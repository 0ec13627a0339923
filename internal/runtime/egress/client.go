package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/netip"
	"time"
)

const (
	// DefaultConnectTimeout is how long a connection may take without Options.ConnectTimeout.
	DefaultConnectTimeout = 10 * time.Second
	// DefaultHeaderTimeout is how long an answer may take to begin without Options.HeaderTimeout.
	DefaultHeaderTimeout = 15 * time.Minute
	// MaxRedirects is how many redirects one request follows.
	MaxRedirects = 5
	// maxAddresses is how many addresses of a host are tried.
	maxAddresses = 4
	// maxHeaderBytes is the most that the header of an answer may take.
	maxHeaderBytes = 64 << 10
	// userAgent is what requests say of who sends them, unless they say it themselves.
	userAgent = "capstan"
)

// Resolver finds the addresses of a host. *net.Resolver is one.
type Resolver interface {
	// LookupNetIP gives the addresses of a host. network is always "ip".
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Options are the settings of a Client. The zero value is usable: public addresses only, and the certificates that the system trusts.
type Options struct {
	// Allow are ranges of addresses that requests may go to although they are not public.
	Allow []netip.Prefix
	// Resolver finds the addresses of hosts. Default: the system's.
	Resolver Resolver
	// Roots are the certificates that servers are trusted by. Default: those of the system.
	Roots *x509.CertPool
	// ConnectTimeout is how long it may take to find a host, connect to it and shake hands, each. Default 10s.
	ConnectTimeout time.Duration
	// HeaderTimeout is how long an answer may take to begin once the request is sent. Default 15m.
	HeaderTimeout time.Duration
}

// Client sends requests. It is safe for concurrent use and keeps no connection.
type Client struct {
	allow    []netip.Prefix
	resolver Resolver
	tls      *tls.Config
	connect  time.Duration
	header   time.Duration
}

// New makes a Client.
func New(o Options) *Client {
	c := &Client{
		allow:    o.Allow,
		resolver: o.Resolver,
		// Without HTTP/2: its connections are shared, and requests on them are sent again.
		tls:     &tls.Config{RootCAs: o.Roots, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}},
		connect: o.ConnectTimeout,
		header:  o.HeaderTimeout,
	}
	if c.resolver == nil {
		c.resolver = net.DefaultResolver
	}
	if c.connect <= 0 {
		c.connect = DefaultConnectTimeout
	}
	if c.header <= 0 {
		c.header = DefaultHeaderTimeout
	}
	return c
}

// transport is for one request. It knows no proxy, and sends nothing a second time, because it keeps no connection.
func (c *Client) transport() *http.Transport {
	return &http.Transport{
		DialContext:            c.dial,
		TLSClientConfig:        c.tls.Clone(),
		TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{},
		TLSHandshakeTimeout:    c.connect,
		ResponseHeaderTimeout:  c.header,
		MaxResponseHeaderBytes: maxHeaderBytes,
		DisableKeepAlives:      true,
		DisableCompression:     true,
	}
}

// dial connects to a host: it resolves it once, and connects to addresses that are permitted and to no others.
func (c *Client) dial(ctx context.Context, network, hostPort string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.connect)
	defer cancel()
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		return nil, failure(ReasonInvalid, "%q is not a host with a port", hostPort)
	}
	addresses, err := c.addresses(ctx, host)
	if err != nil {
		return nil, err
	}
	for i, address := range addresses {
		var dialer net.Dialer
		deadline, _ := ctx.Deadline()
		dialer.Timeout = time.Until(deadline) / time.Duration(len(addresses)-i)
		if conn, err := dialer.DialContext(ctx, network, net.JoinHostPort(address.String(), port)); err == nil {
			return conn, nil
		}
	}
	return nil, failure(ReasonUnreachable, "no connection to %s came about", host)
}

// addresses are those of a host that a request may go to, at most maxAddresses.
func (c *Client) addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	found, err := c.lookUp(ctx, host)
	if err != nil {
		return nil, err
	}
	var permitted []netip.Addr
	for _, address := range found {
		if c.permitted(address) && len(permitted) < maxAddresses {
			permitted = append(permitted, address.Unmap())
		}
	}
	if len(permitted) == 0 {
		return nil, failure(ReasonRefused, "%s has no address that may be reached from here", host)
	}
	return permitted, nil
}

// lookUp gives all addresses of a host.
func (c *Client) lookUp(ctx context.Context, host string) ([]netip.Addr, error) {
	if address, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{address}, nil
	}
	// The resolver's own error names servers of the cluster.
	found, err := c.resolver.LookupNetIP(ctx, "ip", host)
	if err != nil || len(found) == 0 {
		return nil, failure(ReasonUnresolved, "the host %s was not found", host)
	}
	return found, nil
}
