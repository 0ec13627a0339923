package egress

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
)

// pods are Services with one backend each.
type pods struct {
	mu        sync.Mutex
	behind    map[Service][]Backend
	found     error
	gone      error
	confirmed int
	// charged are the namespaces that the calls counted for.
	charged []string
	// onConfirm is called before a backend is confirmed.
	onConfirm func()
}

func (p *pods) Backends(ctx context.Context, s Service) ([]Backend, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.charged = append(p.charged, fairshare.Charged(ctx))
	return p.behind[s], p.found
}

func (p *pods) Confirm(ctx context.Context, _ Service, _ Backend) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.charged = append(p.charged, fairshare.Charged(ctx))
	p.confirmed++
	if p.onConfirm != nil {
		p.onConfirm()
	}
	return p.gone
}

var modelServer = Service{Namespace: "team-a", Name: "models", Port: 8000}

// newPlain starts a server without encryption.
func newPlain(t *testing.T, handler http.HandlerFunc) netip.AddrPort {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return netip.MustParseAddrPort(s.Listener.Addr().String())
}

// behind is the only pod of modelServer.
func behind(address netip.AddrPort) *pods {
	return &pods{behind: map[Service][]Backend{modelServer: {{Pod: "models-0", UID: "u", Address: address}}}}
}

// toService is a request to modelServer.
func toService(scheme, path string) Request {
	r := get(modelServer.URL(scheme, path))
	r.Route = Route{Namespace: "team-a", Service: &modelServer}
	return r
}

func TestAServiceIsReachedAtItsPodWithoutDNS(t *testing.T) {
	var hosts []string
	address := newPlain(t, func(w http.ResponseWriter, r *http.Request) {
		hosts = append(hosts, r.Host)
		fmt.Fprint(w, "fine")
	})
	c, resolver := newClient(nil)
	found := behind(address)
	c.UseServices(found)
	answer, err := c.Do(t.Context(), toService("http", "/v1?a=b"))
	if err != nil || string(answer.Body) != "fine" {
		t.Fatalf("%v, %v", answer, err)
	}
	if resolver.asked != 0 || found.confirmed != 1 || len(hosts) != 1 || hosts[0] != "models.team-a.svc:8000" {
		t.Errorf("%d look-ups, %d confirmations, hosts %q", resolver.asked, found.confirmed, hosts)
	}
	client := c.HTTPClient(TransportOptions{
		Hosts: []string{"models.team-a.svc:8000"}, Route: Route{Namespace: "team-a", Service: &modelServer},
	})
	response, err := post(t, client, modelServer.URL("http", "/v1/chat"), "asked", nil)
	if err != nil || response.status != http.StatusOK {
		t.Errorf("a library got %v, %v", response, err)
	}
	_, err = post(t, client, "http://other.team-a.svc:8000/", "asked", nil)
	if err == nil || len(hosts) != 2 {
		t.Errorf("a library reached another host: %v, %q", err, hosts)
	}
}

func TestNothingIsSentToAPodThatWasReplacedAfterTheConnection(t *testing.T) {
	received := make(chan struct{}, 10)
	address := newPlain(t, func(http.ResponseWriter, *http.Request) { received <- struct{}{} })
	secure := newSite(t, func(http.ResponseWriter, *http.Request) { received <- struct{}{} })
	for scheme, to := range map[string]netip.AddrPort{
		"http": address, "https": netip.MustParseAddrPort(secure.Listener.Addr().String()),
	} {
		c, _ := newClient(nil, secure)
		found := behind(to)
		found.gone = NewServiceError(false, "the pod was replaced")
		c.UseServices(found)
		_, err := c.Do(t.Context(), toService(scheme, "/"))
		expect(t, err, ReasonUnreachable, false)
		if found.confirmed != 1 {
			t.Errorf("%s: the pod was read %d times", scheme, found.confirmed)
		}
	}
	if len(received) != 0 {
		t.Error("the server received a request")
	}
}

func TestAServiceIsTrustedByItsName(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "fine") })
	// The certificate of the site is for example.com.
	named := Service{Namespace: "team-a", Name: "models", Port: 8443}
	c, _ := newClient(nil, s)
	c.UseServices(&pods{behind: map[Service][]Backend{
		named: {{Address: netip.MustParseAddrPort(s.Listener.Addr().String())}},
	}})
	r := get(named.URL("https", "/"))
	r.Route = Route{Namespace: "team-a", Service: &named}
	_, err := c.Do(t.Context(), r)
	expect(t, err, ReasonUntrusted, false)
	if len(s.requests()) != 0 {
		t.Error("the server received a request")
	}
}

func TestTheAddressOfAPodIsNeverThatOfTheAPIServerOrTheLink(t *testing.T) {
	served := 0
	address := newPlain(t, func(http.ResponseWriter, *http.Request) { served++ })
	for name, test := range map[string]struct {
		at     netip.AddrPort
		change func(*Options)
		deny   []netip.AddrPort
	}{
		"the API server": {at: address, deny: []netip.AddrPort{address}},
		"a denied range": {at: address, change: func(o *Options) { o.Deny = loopback }},
		"this host":      {at: address, change: func(o *Options) { o.Allow = nil }},
		"this host, by NAT64": {
			at: netip.MustParseAddrPort("[64:ff9b::7f00:1]:80"), change: func(o *Options) { o.Allow = nil },
		},
		"metadata":             {at: netip.MustParseAddrPort("169.254.169.254:80")},
		"metadata of Azure":    {at: netip.MustParseAddrPort("168.63.129.16:80")},
		"metadata of IPv6":     {at: netip.MustParseAddrPort("[fd00:ec2::254]:80")},
		"the link":             {at: netip.MustParseAddrPort("[fe80::1]:80")},
		"no host":              {at: netip.MustParseAddrPort("0.0.0.0:80")},
		"loopback of IPv6":     {at: netip.MustParseAddrPort("[::1]:80")},
		"mapped link-local":    {at: netip.MustParseAddrPort("[::ffff:169.254.169.254]:80")},
		"many hosts":           {at: netip.MustParseAddrPort("224.0.0.1:80")},
		"a zone":               {at: netip.MustParseAddrPort("[fe80::1%eth0]:80")},
		"an address of no use": {at: netip.AddrPort{}},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := newClient(test.change)
			c.UseServices(behind(test.at))
			c.Deny(test.deny)
			_, err := c.Do(t.Context(), toService("http", "/"))
			expect(t, err, ReasonRefused, false)
		})
	}
	if served != 0 {
		t.Error("the server received a request")
	}
}

func TestOnlyTheURLOfAServiceGoesToItsPods(t *testing.T) {
	served := 0
	address := newPlain(t, func(http.ResponseWriter, *http.Request) { served++ })
	c, _ := newClient(nil)
	c.UseServices(behind(address))
	for _, to := range []string{
		"http://models.team-b.svc:8000/", "http://models.team-a.svc:8001/", "http://models.team-a.svc/",
		"http://example.com/",
	} {
		r := toService("http", "/")
		r.URL = to
		_, err := c.Do(t.Context(), r)
		expect(t, err, ReasonInvalid, false)
	}
	without := get(modelServer.URL("http", "/"))
	_, err := c.Do(t.Context(), without)
	expect(t, err, ReasonInvalid, false)
	without.URL = modelServer.URL("https", "/")
	_, err = c.Do(t.Context(), without)
	expect(t, err, ReasonRefused, false)
	if served != 0 {
		t.Error("the server received a request")
	}
}

func TestARedirectDoesNotTakeTheRouteOfAServiceAlong(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "fine") })
	location := ""
	address := newPlain(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/last" {
			fmt.Fprint(w, "last")
			return
		}
		http.Redirect(w, r, location, http.StatusFound)
	})
	c, _ := newClient(nil, s)
	c.UseServices(behind(address))
	for to, want := range map[string]string{"/last": "last", s.at("/"): "fine"} {
		location = to
		answer, err := c.Do(t.Context(), toService("http", "/"))
		if err != nil || string(answer.Body) != want {
			t.Errorf("%s: %v, %v", to, answer, err)
		}
	}
	for _, to := range []string{"http://example.com:" + s.port + "/", "http://other.team-a.svc:8000/"} {
		location = to
		_, err := c.Do(t.Context(), toService("http", "/"))
		expect(t, err, ReasonRedirect, true)
	}
	trusting := toService("http", "/")
	trusting.Route.Roots = x509.NewCertPool()
	location = s.at("/")
	if answer, err := c.Do(t.Context(), trusting); err != nil || string(answer.Body) != "fine" {
		t.Errorf("the certificates for the Service count for another host: %v, %v", answer, err)
	}
}

func TestWhyAServiceHasNoPodIsShownAndErrorsOfTheAPIServerAreNot(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want Reason
		text string
	}{
		"lasting":    {NewServiceError(true, "Service %q is none", "models"), ReasonRefused, `Service "models" is none`},
		"for now":    {NewServiceError(false, "no pod is Ready"), ReasonUnreachable, "no pod is Ready"},
		"API server": {errors.New("dial tcp: refused"), ReasonUnreachable, "models.team-a.svc could not be read"},
	} {
		c, _ := newClient(nil)
		c.UseServices(&pods{found: test.err})
		_, err := c.Do(t.Context(), toService("http", "/"))
		expect(t, err, test.want, false)
		if !strings.Contains(err.Error(), test.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c, _ := newClient(nil)
	_, err := c.Do(t.Context(), toService("http", "/"))
	expect(t, err, ReasonRefused, false)
}

func TestAnotherPodIsTriedWhenOneWasReplaced(t *testing.T) {
	address := newPlain(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "fine") })
	c, _ := newClient(nil)
	found := behind(address)
	found.behind[modelServer] = append(found.behind[modelServer], found.behind[modelServer]...)
	found.gone = NewServiceError(false, "the pod was replaced")
	found.onConfirm = func() {
		if found.confirmed == 2 {
			found.gone = nil
		}
	}
	c.UseServices(found)
	if answer, err := c.Do(t.Context(), toService("http", "/")); err != nil || string(answer.Body) != "fine" {
		t.Errorf("%v, %v", answer, err)
	}
}
