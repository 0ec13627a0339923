package egress

import (
	"net/netip"
	"testing"
)

func TestARequestToPublicAddressesOnlyIsPermittedNothingElse(t *testing.T) {
	c := New(Options{
		Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("9.9.9.9/32")},
		Resolver: &names{answers: map[string][]string{
			"allowed.example": {"127.0.0.1"}, "ruled.example": {"10.1.2.3"}, "public.example": {"8.8.8.8"},
			"private.example": {"9.9.9.9"}, "mixed.example": {"127.0.0.1 8.8.4.4"},
		}},
		Private: []netip.Prefix{netip.MustParsePrefix("9.0.0.0/8")},
	})
	c.SetPolicy(&Policy{Rules: []Rule{{
		Namespaces: []string{EveryNamespace}, PlainHTTP: true,
		Ranges: []RangeRule{{Prefix: netip.MustParsePrefix("10.0.0.0/8"), Ports: []uint16{443}}},
	}}})
	for host, test := range map[string]struct{ usual, public int }{
		"allowed.example": {1, 0}, "ruled.example": {1, 0}, "private.example": {1, 0}, "public.example": {1, 1},
		"mixed.example": {2, 1},
	} {
		for public, want := range map[bool]int{false: test.usual, true: test.public} {
			d := connector{client: c, route: Route{Namespace: "team-a", Public: public}}
			got, err := d.targets(t.Context(), host, 443)
			if len(got) != want || (err == nil) != (want > 0) {
				t.Errorf("%s, public: %t: %v, %v", host, public, got, err)
			}
		}
	}
	if _, err := c.begin(
		Request{URL: "http://public.example", Route: Route{Namespace: "team-a", Public: true}},
	); err == nil {
		t.Error("a request without encryption is permitted")
	}
	if _, err := c.begin(Request{URL: "http://public.example", Route: Route{Namespace: "team-a"}}); err != nil {
		t.Errorf("the rule permits no plain HTTP: %v", err)
	}
}
