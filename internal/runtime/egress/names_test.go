package egress

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

func TestNamesAreLookedUpPastTheSearchPath(t *testing.T) {
	for host, want := range map[string]string{
		"api.example.com":                       "api.example.com.",
		"api.example.com.":                      "api.example.com.",
		"vllm":                                  "vllm.",
		"vllm.team-a.svc.cluster.local":         "vllm.team-a.svc.cluster.local.",
		"vllm.team-a.svc":                       "vllm.team-a.svc",
		"api.example.svc.evil.example":          "api.example.svc.evil.example.",
		"generativelanguage.googleapis.com":     "generativelanguage.googleapis.com.",
		"vllm.team-a.svc.cluster.local.example": "vllm.team-a.svc.cluster.local.example.",
	} {
		c, resolver := newClient(nil)
		_, _ = c.Do(t.Context(), get("https://"+host+"/"))
		if strings.Join(resolver.hosts, " ") != want {
			t.Errorf("%s is looked up as %q, want %q", host, resolver.hosts, want)
		}
	}
}

func TestAHostThatMayNotBeReachedLooksLikeOneThatDoesNotExist(t *testing.T) {
	c, resolver := newClient(nil)
	resolver.answers["a.inside.example"] = []string{"10.0.0.1"}
	_, refused := c.Do(t.Context(), get("https://a.inside.example/"))
	_, missing := c.Do(t.Context(), get("https://b.inside.example/"))
	hidden, none := failedWith(t, refused, ReasonRefused, false), failedWith(t, missing, ReasonRefused, false)
	if hidden.Text != strings.Replace(none.Text, "b.inside", "a.inside", 1) {
		t.Errorf("the errors differ: %q, %q", hidden.Text, none.Text)
	}
	resolver.answers["c.inside.example"] = []string{"fails"}
	_, failed := c.Do(t.Context(), get("https://c.inside.example/"))
	expect(t, failed, ReasonUnresolved, false)
}

func TestARequestIsNotSentBackToWhereItHasBeen(t *testing.T) {
	there := newSite(t, redirecting)
	circle := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, there.at("/?status=307&to=https://example.com:"+r.URL.Query().Get("port")+"/start%3Fport="+
			r.URL.Query().Get("port")), http.StatusTemporaryRedirect)
	})
	c, _ := newClient(nil, circle, there)
	_, err := c.Do(t.Context(), Request{
		Method: http.MethodPost, URL: circle.at("/start?port=" + circle.port), Body: []byte("pay"), MaxBody: 100,
	})
	expect(t, err, ReasonRedirect, true)
	if n := len(circle.requests()); n != 1 {
		t.Errorf("the request was sent to the same URL %d times", n)
	}
}

func TestADeniedAddressIsNotReached(t *testing.T) {
	s := newSite(t, redirecting)
	port := netip.MustParseAddrPort("127.0.0.1:" + s.port)
	for name, test := range map[string]struct {
		ranges []netip.Prefix
		places []netip.AddrPort
		denied bool
	}{
		"nothing":        {},
		"a range":        {ranges: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/30")}, denied: true},
		"another range":  {ranges: []netip.Prefix{netip.MustParsePrefix("127.0.1.0/30")}},
		"the place":      {places: []netip.AddrPort{port}, denied: true},
		"another port":   {places: []netip.AddrPort{netip.AddrPortFrom(port.Addr(), 1)}},
		"in IPv6's form": {places: []netip.AddrPort{netip.MustParseAddrPort("[::ffff:127.0.0.1]:" + s.port)}, denied: true},
	} {
		t.Run(name, func(t *testing.T) {
			var refusals []string
			c, _ := newClient(func(o *Options) {
				o.Deny, o.Refusals = test.ranges, func(host, why string) { refusals = append(refusals, host+": "+why) }
			}, s)
			c.Deny(test.places)
			_, err := c.Do(t.Context(), get(s.at("/")))
			if !test.denied {
				if err != nil || len(refusals) > 0 {
					t.Errorf("the error is %v, the operator is notified of %q", err, refusals)
				}
				return
			}
			expect(t, err, ReasonRefused, false)
			if len(refusals) != 1 || refusals[0] != "example.com: its addresses are not allowed" {
				t.Errorf("the operator is notified of %q", refusals)
			}
		})
	}
	c := New(Options{Deny: []netip.Prefix{netip.MustParsePrefix("8.8.8.0/24")}})
	if !c.denied(netip.MustParseAddr("64:ff9b::808:808"), 443) ||
		!c.denied(netip.MustParseAddr("::ffff:8.8.8.8"), 443) {
		t.Error("another form of a denied address is reached")
	}
}

func TestTheNetworkOfTheManagerItselfIsNotPublic(t *testing.T) {
	var addresses []net.Addr
	for _, text := range []string{"127.0.0.1/8", "10.1.2.3/24", "2600:1f14:0:1::5/128", "8.8.4.4/30", "fe80::1/64"} {
		_, network, err := net.ParseCIDR(text)
		if err != nil {
			t.Fatal(err)
		}
		addresses = append(addresses, network)
	}
	own := Own(addresses)
	c := New(Options{Private: own, Allow: []netip.Prefix{netip.MustParsePrefix("2600:1f14:0:1::80/128")}})
	for address, want := range map[string]bool{
		"2600:1f14:0:1::6": false, "2600:1f14:0:1::80": true, "2600:1f14:0:2::6": true, "8.8.4.5": false, "8.8.4.8": true,
	} {
		if got := c.permitted(netip.MustParseAddr(address), false); got != want {
			t.Errorf("%s: permitted is %v, want %v; own %v", address, got, want, own)
		}
	}
}
