package egress

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
)

// refused are the ranges that no request goes to, in addition to those that public excludes by class. Most are in
// IANA's registries of special-purpose addresses.
var refused = prefixes(
	"0.0.0.0/8",         // this network
	"10.0.0.0/8",        // private
	"100.64.0.0/10",     // carrier-grade NAT; clouds keep metadata here too
	"127.0.0.0/8",       // loopback
	"168.63.129.16/32",  // Azure's metadata, at a public address
	"169.254.0.0/16",    // link-local, with the metadata of most clouds
	"172.16.0.0/12",     // private
	"192.0.0.0/24",      // protocol assignments
	"192.0.2.0/24",      // documentation
	"192.31.196.0/24",   // AS112
	"192.52.193.0/24",   // AMT
	"192.88.99.0/24",    // 6to4 relays
	"192.168.0.0/16",    // private
	"192.175.48.0/24",   // AS112
	"198.18.0.0/15",     // benchmarks
	"198.51.100.0/24",   // documentation
	"203.0.113.0/24",    // documentation
	"224.0.0.0/4",       // multicast
	"240.0.0.0/4",       // reserved, and broadcast
	"2001::/23",         // protocol assignments, Teredo among them
	"2001:db8::/32",     // documentation
	"2002::/16",         // 6to4, which maps any IPv4 address
	"2620:4f:8000::/48", // AS112
	"3fff::/20",         // documentation
)

var (
	// globalUnicast is all of IPv6 that is routed publicly. Other addresses are loopback, mapped, private, link-local,
	// multicast or unassigned.
	globalUnicast = netip.MustParsePrefix("2000::/3")
	// nat64 maps the IPv4 address in its last 32 bits. Networks without IPv4 reach all of it this way.
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
)

func prefixes(list ...string) []netip.Prefix {
	parsed := make([]netip.Prefix, len(list))
	for i, text := range list {
		parsed[i] = netip.MustParsePrefix(text)
	}
	return parsed
}

// public reports whether an address is reachable from anywhere on the internet.
func public(a netip.Addr) bool {
	switch a = a.Unmap(); {
	case !a.IsValid(), a.Zone() != "":
		return false
	case nat64.Contains(a):
		b := a.As16()
		return public(netip.AddrFrom4([4]byte(b[12:])))
	case a.Is6() && !globalUnicast.Contains(a):
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

// permitted reports whether a request may go to an address: it is public, or the operator has allowed it. A range of
// IPv4 also covers the addresses that IPv6 maps to it.
func (c *Client) permitted(a netip.Addr) bool {
	return (public(a) && !within(c.private, a.Unmap())) || (a.Zone() == "" && within(c.allow, a.Unmap()))
}

// denied reports whether no request goes to an address and port, even if it is allowed. An address that maps an IPv4
// address by NAT64 counts as that one.
func (c *Client) denied(a netip.Addr, port string) bool {
	a = a.Unmap()
	if nat64.Contains(a) {
		b := a.As16()
		a = netip.AddrFrom4([4]byte(b[12:]))
	}
	if within(c.deny, a) {
		return true
	}
	places, number := c.places.Load(), uint64(0)
	if places != nil {
		number, _ = strconv.ParseUint(port, 10, 16)
	}
	return places != nil && slices.Contains(*places, netip.AddrPortFrom(a, uint16(number)))
}
