package egress

import (
	"crypto/x509"
	"net/netip"
	"slices"
)

// EveryNamespace is the name in Rule.Namespaces that stands for all of them.
const EveryNamespace = "*"

// Policy is what the operator permits for namespaces besides public addresses. It does not change.
type Policy struct {
	Rules []Rule
}

// Rule permits destinations for some namespaces.
type Rule struct {
	// Namespaces that the rule is for. EveryNamespace stands for all.
	Namespaces []string
	// Services are reached at their pods.
	Services []ServiceRule
	// Ranges are reached at their addresses, by any name that resolves to one.
	Ranges []RangeRule
	// PlainHTTP permits requests without encryption as well.
	PlainHTTP bool
	// Roots are the certificates that servers of the rule are trusted by; nil for those of the Client.
	Roots *x509.CertPool
}

// ServiceRule is a Service and its permitted ports.
type ServiceRule struct {
	Namespace, Name string
	Ports           []uint16
}

// RangeRule is a range of addresses and the permitted ports of each.
type RangeRule struct {
	Prefix netip.Prefix
	Ports  []uint16
}

// isFor reports whether the rule applies to requests for a namespace.
func (r *Rule) isFor(namespace string, plain bool) bool {
	return namespace != "" && (r.PlainHTTP || !plain) &&
		(slices.Contains(r.Namespaces, namespace) || slices.Contains(r.Namespaces, EveryNamespace))
}

// service returns the first rule that permits a Service; nil for none.
func (p *Policy) service(namespace string, plain bool, s Service) *Rule {
	return p.first(namespace, plain, func(r *Rule) bool {
		return slices.ContainsFunc(r.Services, func(of ServiceRule) bool {
			return of.Namespace == s.Namespace && of.Name == s.Name && slices.Contains(of.Ports, uint16(s.Port))
		})
	})
}

// address returns the first rule that permits an address; nil for none.
func (p *Policy) address(namespace string, plain bool, to netip.AddrPort) *Rule {
	return p.first(namespace, plain, func(r *Rule) bool {
		return slices.ContainsFunc(r.Ranges, func(of RangeRule) bool {
			return of.Prefix.Contains(to.Addr()) && slices.Contains(of.Ports, to.Port())
		})
	})
}

// permitsPlain reports whether a rule permits any request without encryption for a namespace.
func (p *Policy) permitsPlain(namespace string) bool {
	return p.first(namespace, true, func(*Rule) bool { return true }) != nil
}

func (p *Policy) first(namespace string, plain bool, permits func(*Rule) bool) *Rule {
	if p == nil {
		return nil
	}
	for i := range p.Rules {
		if r := &p.Rules[i]; r.isFor(namespace, plain) && permits(r) {
			return r
		}
	}
	return nil
}

// SetPolicy replaces the Policy. It counts for new connections. Nil permits nothing.
func (c *Client) SetPolicy(p *Policy) { c.policy.Store(p) }

// never are the ranges that neither a Policy nor the address of a pod makes reachable: this host, the link with its
// metadata services, and no host at all.
var never = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("127.0.0.0/8"),
	netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("224.0.0.0/3"),
	// Metadata services outside of the link-local range: Azure's, Alibaba Cloud's, Oracle's and AWS's.
	netip.MustParsePrefix("168.63.129.16/32"),
	netip.MustParsePrefix("100.100.100.200/32"),
	netip.MustParsePrefix("192.0.0.192/32"),
	netip.MustParsePrefix("fd00:ec2::/32"),
	netip.MustParsePrefix("fd20:ce::254/128"),
	netip.MustParsePrefix("::/127"),
	netip.MustParsePrefix("fe80::/10"),
	netip.MustParsePrefix("ff00::/8"),
}

// Never reports whether no address of a range can be reached by a Policy.
func Never(p netip.Prefix) bool {
	return slices.ContainsFunc(never, func(n netip.Prefix) bool {
		return n.Bits() <= p.Bits() && n.Contains(p.Addr())
	})
}

// reachable reports whether a Policy or the address of a pod may make an address reachable. What the operator has
// allowed for all is.
func (c *Client) reachable(to netip.AddrPort) bool {
	a := to.Addr()
	if !a.IsValid() || a.Zone() != "" || within(never, embedded(a)) && !within(c.allow, a.Unmap()) {
		return false
	}
	return !c.denied(a, to.Port())
}
