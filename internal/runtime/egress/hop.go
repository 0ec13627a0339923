package egress

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

const (
	schemeHTTP  = "http"
	schemeHTTPS = "https"
)

// hop is one of the requests that a Request leads to by redirects.
type hop struct {
	method string
	url    *url.URL
	header http.Header
	secret http.Header
	body   []byte
	// confined reports whether the request stays at the place of its URL, whatever its headers.
	confined bool
	permits  func(*url.URL) bool
	route    Route
	plain    bool
	// ruled reports whether rules of the operator permit requests without encryption for the namespace.
	ruled bool
}

// begin checks a request.
func (c *Client) begin(r Request) (*hop, *Error) {
	ruled := !r.Route.Public && c.policy.Load().permitsPlain(r.Route.Namespace)
	u, err := parse(r.URL, r.AllowHTTP || ruled || r.Route.Service != nil)
	if err != nil {
		return nil, err
	}
	h := &hop{
		method:   r.Method,
		url:      u,
		header:   r.Header.Clone(),
		secret:   r.Secret,
		body:     r.Body,
		confined: r.Confined,
		permits:  r.Permits,
		route:    r.Route,
		plain:    r.AllowHTTP,
		ruled:    ruled,
	}
	if h.header == nil {
		h.header = http.Header{}
	}
	for _, header := range []http.Header{h.header, h.secret} {
		for name, values := range header {
			if !httpguts.ValidHeaderFieldName(name) || !valid(values) {
				return nil, failure(ReasonInvalid, "invalid character in the header %q", name)
			}
		}
	}
	return h, h.mayGo()
}

// parse reads a URL that a request may be sent to.
func parse(raw string, plain bool) (*url.URL, *Error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, failure(ReasonInvalid, "invalid URL")
	case u.Scheme != schemeHTTPS && (u.Scheme != schemeHTTP || !plain):
		return nil, failure(ReasonInvalid, "the scheme of the URL is not https")
	case u.User != nil:
		return nil, failure(ReasonInvalid, "the URL contains a user name")
	case !validHost(u.Hostname()):
		return nil, failure(ReasonInvalid, "missing or invalid host in URL")
	case u.Port() == "" && strings.HasSuffix(u.Host, ":"), u.Port() != "" && !validPort(u.Port()):
		return nil, failure(ReasonInvalid, "invalid port in URL")
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// mayGo returns whether the request may go to its URL. Where it may go without encryption is also decided once the
// addresses are known.
func (h *hop) mayGo() *Error {
	if h.url.Scheme == schemeHTTP && !h.plain && !h.ruled && !h.route.Service.is(h.url) {
		return failure(ReasonInvalid, "the scheme of the URL is not https")
	}
	if h.permits != nil && !h.permits(h.url) {
		return failure(ReasonForbidden, "the network access list does not permit the url at %s", place(h.url))
	}
	return nil
}

// headers are the headers of the request.
func (h *hop) headers() http.Header {
	all := h.header.Clone()
	for name, values := range h.secret {
		all[http.CanonicalHeaderKey(name)] = slices.Clone(values)
	}
	if _, given := all["User-Agent"]; !given {
		all.Set("User-Agent", userAgent)
	}
	return all
}

// identity identifies a request: the same one is never sent twice.
func (h *hop) identity() string {
	return h.method + " " + h.url.Scheme + "://" + place(h.url) + h.url.RequestURI()
}

// aboutBody are the headers that describe the body and are sent with it.
var aboutBody = []string{"Accept", "Content-Type", "User-Agent"}

// follow returns the request for a redirect.
func (h *hop) follow(status int, location string) (*hop, *Error) {
	target, err := h.url.Parse(location)
	if err != nil {
		return nil, failure(ReasonRedirect, "invalid redirect location")
	}
	u, problem := parse(target.String(), h.url.Scheme == schemeHTTP)
	if problem != nil {
		return nil, failure(ReasonRedirect, "invalid redirect target: %s", problem.Text)
	}
	next := *h
	next.url, next.header = u, h.header.Clone()
	if u.Scheme != h.url.Scheme || place(u) != place(h.url) {
		// The Service and the certificates are for the first destination alone.
		next.route = Route{Namespace: h.route.Namespace, Public: h.route.Public}
		if h.confined || len(h.secret) > 0 {
			// The target is not named: its host may be a credential.
			return nil, failure(ReasonRedirect,
				"the server redirected to another place, but the credentials of the request are for %s only", place(h.url))
		}
		next.header = http.Header{}
		for _, name := range aboutBody {
			if values := h.header.Values(name); len(values) > 0 {
				next.header[name] = slices.Clone(values)
			}
		}
	}
	if becomesGet(status, h.method) {
		next.method, next.body = http.MethodGet, nil
		next.header.Del("Content-Type")
	}
	if problem := next.mayGo(); problem != nil {
		return nil, failure(ReasonRedirect, "invalid redirect target: %s", problem.Text)
	}
	return &next, nil
}

// becomesGet reports whether a redirect is followed by a GET, as browsers do it.
func becomesGet(status int, method string) bool {
	switch status {
	case http.StatusSeeOther:
		return method != http.MethodHead
	case http.StatusMovedPermanently, http.StatusFound:
		return method == http.MethodPost
	default:
		return false
	}
}

// Listed reports whether a list of hosts has that of a URL: as host, for port 443 only, or as host:port. Case does not
// matter.
func Listed(hosts []string, u *url.URL) bool {
	return slices.ContainsFunc(hosts, func(listed string) bool {
		listed = strings.ToLower(strings.TrimSpace(listed))
		return listed != "" && (listed == place(u) || listed+":443" == place(u))
	})
}

// Place is the host and port of a URL, in the form for TransportOptions.Hosts.
func Place(u *url.URL) string { return place(u) }

// place is the host and port of a URL, in one form for all ways to write them.
func place(u *url.URL) string {
	host, port := strings.ToLower(u.Hostname()), u.Port()
	switch {
	case port != "":
	case u.Scheme == schemeHTTP:
		port = "80"
	default:
		port = "443"
	}
	return net.JoinHostPort(host, port)
}

func validHost(host string) bool {
	for _, r := range host {
		// Colons are those of an IPv6 address, which are checked as one.
		if r <= ' ' || r > '~' || strings.ContainsRune(`"#%/<>?@[\]^{|}`+"`", r) {
			return false
		}
	}
	return host != ""
}

func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

// valid reports whether texts can be the values of a header.
func valid(values []string) bool {
	return !slices.ContainsFunc(values, func(value string) bool { return !httpguts.ValidHeaderFieldValue(value) })
}
