package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// DefaultConnectTimeout is how long a connection may take without Options.ConnectTimeout.
	DefaultConnectTimeout = 10 * time.Second
	// DefaultHeaderTimeout is how long a response may take to begin without Options.HeaderTimeout.
	DefaultHeaderTimeout = 15 * time.Minute
	// MaxRedirects is how many redirects one request follows.
	MaxRedirects = 5
	// maxAddresses is how many addresses of a host are tried.
	maxAddresses = 4
	// maxHeaderBytes is the most that the header of a response may take.
	maxHeaderBytes = 64 << 10
	// userAgent is the User-Agent of requests that set none themselves.
	userAgent = "capstan"
)

// Resolver finds the addresses of a host. *net.Resolver is one.
type Resolver interface {
	// LookupNetIP returns the addresses of a host. network is always "ip".
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Options are the settings of a Client. The zero value is usable: public addresses only, and the certificates that the
// system trusts.
type Options struct {
	// Allow are ranges of addresses that requests may go to although they are not public.
	Allow []netip.Prefix
	// Private are ranges of public addresses that are used privately here: requests go there only if Allow permits it.
	Private []netip.Prefix
	// Deny are ranges of addresses that no request goes to, whatever else permits them.
	Deny []netip.Prefix
	// Refusals receives why a host has no permitted address, which errors leave out: a user who may not reach internal
	// names must not learn which of them exist. Several goroutines may call it. Default: none.
	Refusals func(host, why string)
	// Resolver finds the addresses of hosts. Default: the system's.
	Resolver Resolver
	// Roots are the certificates that servers are trusted by. Default: those of the system.
	Roots *x509.CertPool
	// ConnectTimeout is how long it may take to find a host, connect to it and shake hands, each. Default 10s.
	ConnectTimeout time.Duration
	// HeaderTimeout is how long a response may take to begin once the request is sent. Default 15m.
	HeaderTimeout time.Duration
}

// Client sends requests. It is safe for concurrent use and keeps no connection.
type Client struct {
	allow    []netip.Prefix
	private  []netip.Prefix
	deny     []netip.Prefix
	places   atomic.Pointer[[]netip.AddrPort]
	policy   atomic.Pointer[Policy]
	services Services
	refusals func(host, why string)
	resolver Resolver
	tls      *tls.Config
	connect  time.Duration
	header   time.Duration
}

// New returns a Client.
func New(o Options) *Client {
	c := &Client{
		allow:    o.Allow,
		private:  o.Private,
		deny:     o.Deny,
		refusals: o.Refusals,
		resolver: o.Resolver,
		// Without HTTP/2: its connections are shared, and requests on them are sent again.
		tls:     &tls.Config{RootCAs: o.Roots, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}},
		connect: o.ConnectTimeout,
		header:  o.HeaderTimeout,
	}
	if c.refusals == nil {
		c.refusals = func(string, string) {}
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

// UseServices sets what finds the pods of Services. It is called before the first request. Without it, no Service is
// reached.
func (c *Client) UseServices(s Services) { c.services = s }

// Deny sets the addresses with their ports that no request goes to, besides Options.Deny. It counts for new
// connections.
func (c *Client) Deny(places []netip.AddrPort) {
	kept := make([]netip.AddrPort, len(places))
	for i, p := range places {
		kept[i] = netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
	}
	c.places.Store(&kept)
}

// transport serves one request. It uses no proxy, and sends nothing a second time, because it keeps no connection.
func (c *Client) transport(h *hop) *http.Transport {
	d := connector{client: c, route: h.route, plain: h.url.Scheme == schemeHTTP, public: h.plain}
	return &http.Transport{
		DialContext:            d.dial,
		DialTLSContext:         d.dialTLS,
		TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{},
		ResponseHeaderTimeout:  c.header,
		MaxResponseHeaderBytes: maxHeaderBytes,
		DisableKeepAlives:      true,
		DisableCompression:     true,
	}
}

// lookUp returns all addresses of a host, and why there are none if the host is known not to exist.
func (c *Client) lookUp(ctx context.Context, host string) (found []netip.Addr, why string, err error) {
	if address, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{address}, "", nil
	}
	found, err = c.resolver.LookupNetIP(ctx, "ip", qualified(host))
	var unknown *net.DNSError
	switch {
	case err == nil && len(found) > 0:
		return found, "", nil
	case err == nil, errors.As(err, &unknown) && unknown.IsNotFound:
		return nil, "it does not exist", nil
	default:
		// The resolver's own error names servers of the cluster.
		return nil, "", failure(ReasonUnresolved, "failed to resolve the host %s", host)
	}
}

// qualified returns the name for looking up a host: with a final dot, so that the search path of the pod is not used.
// With the usual one, api.example.com would be looked up as api.example.com.svc.cluster.local first, which is a
// Service's name in a namespace "com". Names of Services in the short form need the search path: only it has the domain
// of the cluster.
func qualified(host string) string {
	lower := strings.ToLower(host)
	if strings.HasSuffix(host, ".") || strings.HasSuffix(lower, ".svc") {
		return host
	}
	return host + "."
}
