package egress

import (
	"net"
	"net/netip"
	"slices"

	"code.dny.dev/ssrf"
)

// refused are the ranges that no request goes to, in addition to those that public excludes by class: the
// special-purpose addresses in the registries of IANA, and an address of Azure's metadata, which is a public one.
var refused = slices.Concat(
	ssrf.IPv4DeniedPrefixes, ssrf.IPv6DeniedPrefixes, []netip.Prefix{netip.MustParsePrefix("168.63.129.16/32")},
)

// public reports whether an address is reachable from anywhere on the internet.
func public(a netip.Addr) bool {
	switch a = a.Unmap(); {
	case !a.IsValid(), a.Zone() != "":
		return false
	case ssrf.IPv6NAT64Prefix.Contains(a):
		b := a.As16()
		return public(netip.AddrFrom4([4]byte(b[12:])))
	case a.Is6() && !ssrf.IPv6GlobalUnicast.Contains(a):
		// Loopback, mapped, private, link-local, multicast or unassigned.
		return false
	}
	return !within(refused, a)
}

// within reports whether an address is in one of the ranges.
func within(ranges []netip.Prefix, a netip.Addr) bool {
	for _, r := range ranges {
		if r.Contains(a) {
			return true
		}
	}
	return false
}

// Own returns the public ranges of a host with these addresses, as net.InterfaceAddrs returns them: in clusters whose
// pods have public addresses, its neighbours are in the same ranges; those of IPv6 have 64 bits.
func Own(addresses []net.Addr) []netip.Prefix {
	var own []netip.Prefix
	for _, address := range addresses {
		prefix, err := netip.ParsePrefix(address.String())
		if err != nil || !public(prefix.Addr()) {
			continue
		}
		if prefix.Addr().Is6() && prefix.Bits() > 64 {
			prefix = netip.PrefixFrom(prefix.Addr(), 64)
		}
		own = append(own, prefix.Masked())
	}
	return own
}

// permitted reports whether a request may go to an address: it is public, or the operator has allowed it, which does
// not count for requests to public addresses only. A range of IPv4 also covers the addresses that IPv6 maps to it.
func (c *Client) permitted(a netip.Addr, publicOnly bool) bool {
	return (public(a) && !within(c.private, a.Unmap())) ||
		(!publicOnly && a.Zone() == "" && within(c.allow, a.Unmap()))
}

// denied reports whether no request goes to an address and port, even if it is allowed. An address that maps an IPv4
// address by NAT64 counts as that one.
func (c *Client) denied(a netip.Addr, port uint16) bool {
	a = embedded(a)
	if within(c.deny, a) {
		return true
	}
	places := c.places.Load()
	return places != nil && slices.Contains(*places, netip.AddrPortFrom(a, port))
}

// embedded is the IPv4 address that an address of IPv6 stands for; otherwise the address itself.
func embedded(a netip.Addr) netip.Addr {
	a = a.Unmap()
	if ssrf.IPv6NAT64Prefix.Contains(a) {
		b := a.As16()
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return a
}
