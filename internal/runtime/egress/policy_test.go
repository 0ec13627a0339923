package egress

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"net/netip"
	"testing"
)

func fine(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "fine") }

// sentFor is a GET request for a namespace.
func sentFor(namespace, u string) Request {
	r := get(u)
	r.Route.Namespace = namespace
	return r
}

// withoutNever lets a test reach its own servers by a Policy alone.
func withoutNever(t *testing.T) {
	t.Helper()
	before := never
	never = nil
	t.Cleanup(func() { never = before })
}

func TestARuleIsForItsNamespacesPortsAndScheme(t *testing.T) {
	withoutNever(t)
	s := newSite(t, fine)
	plain := newPlain(t, fine)
	secure := netip.MustParseAddrPort(s.Listener.Addr().String())
	for name, test := range map[string]struct {
		rule    Rule
		request Request
		reached bool
	}{
		"its namespace":     {Rule{Namespaces: []string{"team-a"}}, sentFor("team-a", s.at("/")), true},
		"every namespace":   {Rule{Namespaces: []string{EveryNamespace}}, sentFor("team-b", s.at("/")), true},
		"another namespace": {Rule{Namespaces: []string{"team-a"}}, sentFor("team-b", s.at("/")), false},
		"no namespace":      {Rule{Namespaces: []string{EveryNamespace}}, get(s.at("/")), false},
		"plain HTTP": {
			Rule{Namespaces: []string{"team-a"}, PlainHTTP: true}, sentFor("team-a", "http://"+plain.String()), true,
		},
		"plain HTTP without leave": {
			Rule{Namespaces: []string{"team-a"}}, sentFor("team-a", "http://"+plain.String()), false,
		},
		"HTTPS beside plain HTTP": {
			Rule{Namespaces: []string{"team-a"}, PlainHTTP: true}, sentFor("team-a", s.at("/")), true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := newClient(func(o *Options) { o.Allow = nil }, s)
			for _, ports := range [][]uint16{{secure.Port(), plain.Port()}, {1}} {
				test.rule.Ranges = []RangeRule{{Prefix: netip.MustParsePrefix("127.0.0.1/32"), Ports: ports}}
				c.SetPolicy(&Policy{Rules: []Rule{test.rule}})
				_, err := c.Do(t.Context(), test.request)
				if reached := err == nil; reached != (test.reached && len(ports) > 1) {
					t.Errorf("ports %d: %v", ports, err)
				}
			}
		})
	}
}

func TestPlainHTTPOfARuleReachesNoOtherAddress(t *testing.T) {
	withoutNever(t)
	served := 0
	plain := newPlain(t, func(http.ResponseWriter, *http.Request) { served++ })
	// All of 127.0.0.0/8 is allowed for HTTPS.
	c, _ := newClient(nil)
	c.SetPolicy(&Policy{Rules: []Rule{{
		Namespaces: []string{"team-a"}, PlainHTTP: true,
		Ranges: []RangeRule{{Prefix: netip.MustParsePrefix("127.0.0.9/32"), Ports: []uint16{plain.Port()}}},
	}}})
	_, err := c.Do(t.Context(), sentFor("team-a", "http://"+plain.String()))
	expect(t, err, ReasonRefused, false)
	if served != 0 {
		t.Error("the server received a request")
	}
}

func TestNoRuleReachesThisHostTheLinkOrTheAPIServer(t *testing.T) {
	plain := newPlain(t, fine)
	everything := Policy{Rules: []Rule{{
		Namespaces: []string{EveryNamespace}, PlainHTTP: true,
		Ranges: []RangeRule{
			{Prefix: netip.MustParsePrefix("0.0.0.0/0"), Ports: []uint16{80, plain.Port()}},
			{Prefix: netip.MustParsePrefix("::/0"), Ports: []uint16{80}},
		},
	}}}
	c, _ := newClient(func(o *Options) { o.Allow = nil })
	c.SetPolicy(&everything)
	for _, to := range []string{
		plain.String(), "169.254.169.254", "168.63.129.16", "[fe80::1]", "[::1]", "[fd00:ec2::254]", "0.0.0.0",
		"[64:ff9b::a9fe:a9fe]", "[::ffff:169.254.169.254]",
	} {
		_, err := c.Do(t.Context(), sentFor("team-a", "http://"+to))
		expect(t, err, ReasonRefused, false)
	}
	withoutNever(t)
	c.Deny([]netip.AddrPort{plain})
	_, err := c.Do(t.Context(), sentFor("team-a", "http://"+plain.String()))
	expect(t, err, ReasonRefused, false)
	c.Deny(nil)
	if _, err := c.Do(t.Context(), sentFor("team-a", "http://"+plain.String())); err != nil {
		t.Errorf("what is not denied: %v", err)
	}
}

func TestAServiceOfAnotherNamespaceIsReachedByARuleAlone(t *testing.T) {
	address := newPlain(t, fine)
	c, resolver := newClient(nil)
	backends := behind(address)
	c.UseServices(backends)
	rule := Rule{
		Namespaces: []string{"team-b"}, PlainHTTP: true,
		Services: []ServiceRule{{Namespace: "team-a", Name: "models", Ports: []uint16{8000}}},
	}
	c.SetPolicy(&Policy{Rules: []Rule{rule}})
	for _, u := range []string{"http://models.team-a.svc:8000/", "http://MODELS.team-a.svc.cluster.local:8000/"} {
		answer, err := c.Do(t.Context(), sentFor("team-b", u))
		if err != nil || string(answer.Body) != "fine" {
			t.Errorf("%s: %v, %v", u, answer, err)
		}
	}
	if resolver.asked != 0 {
		t.Errorf("%d names were resolved", resolver.asked)
	}
	for _, namespace := range backends.charged {
		if namespace != "team-b" {
			t.Errorf("the requests to the API server count for %v, not for the namespace that connects", backends.charged)
		}
	}
	for u, namespace := range map[string]string{
		"http://models.team-a.svc:8001/":                "team-b",
		"http://other.team-a.svc:8000/":                 "team-b",
		"http://models.team-a.svc.example.com:8000/":    "team-b",
		"http://a.models.team-a.svc.cluster.local:8000": "team-b",
	} {
		_, err := c.Do(t.Context(), sentFor(namespace, u))
		expect(t, err, ReasonRefused, false)
	}
	_, err := c.Do(t.Context(), sentFor("team-c", "http://models.team-a.svc:8000/"))
	expect(t, err, ReasonInvalid, false)
	c.SetPolicy(nil)
	_, err = c.Do(t.Context(), sentFor("team-b", "http://models.team-a.svc:8000/"))
	expect(t, err, ReasonInvalid, false)
}

func TestTheCertificatesOfARuleCountForItsServersAlone(t *testing.T) {
	withoutNever(t)
	s := newSite(t, fine)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	c, _ := newClient(func(o *Options) { o.Allow = nil })
	rule := Rule{
		Namespaces: []string{"team-a"}, Roots: roots,
		Ranges: []RangeRule{{
			Prefix: netip.MustParsePrefix("127.0.0.0/8"),
			Ports:  []uint16{netip.MustParseAddrPort(s.Listener.Addr().String()).Port()},
		}},
	}
	c.SetPolicy(&Policy{Rules: []Rule{rule}})
	if _, err := c.Do(t.Context(), sentFor("team-a", s.at("/"))); err != nil {
		t.Error(err)
	}
	own := sentFor("team-a", s.at("/"))
	own.Route.Roots = x509.NewCertPool()
	_, err := c.Do(t.Context(), own)
	expect(t, err, ReasonUntrusted, false)
	rule.Roots = nil
	c.SetPolicy(&Policy{Rules: []Rule{rule}})
	_, err = c.Do(t.Context(), sentFor("team-a", s.at("/")))
	expect(t, err, ReasonUntrusted, false)
}

func TestARangeThatCanNeverBeReachedIsKnown(t *testing.T) {
	for prefix, want := range map[string]bool{
		"127.0.0.0/8": true, "169.254.169.254/32": true, "fe80::/64": true, "10.0.0.0/8": false, "0.0.0.0/0": false,
		"fd00::/8": false,
	} {
		if Never(netip.MustParsePrefix(prefix)) != want {
			t.Errorf("%s: want %v", prefix, want)
		}
	}
}
