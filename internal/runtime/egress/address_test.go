package egress

import (
	"net/netip"
	"testing"

	"code.dny.dev/ssrf"
)

func TestOnlyPublicAddressesArePublic(t *testing.T) {
	for address, want := range map[string]bool{
		"1.1.1.1":                 true,
		"8.8.8.8":                 true,
		"172.15.255.255":          true,
		"172.32.0.0":              true,
		"100.63.255.255":          true,
		"100.128.0.0":             true,
		"223.255.255.255":         true,
		"2606:4700:4700::1111":    true,
		"2a00:1450:4001:81b::1":   true,
		"::ffff:8.8.8.8":          true,
		"64:ff9b::808:808":        true,
		"0.0.0.0":                 false,
		"0.1.2.3":                 false,
		"10.0.0.1":                false,
		"100.64.0.1":              false,
		"100.100.100.200":         false,
		"127.0.0.1":               false,
		"127.255.255.254":         false,
		"168.63.129.16":           false,
		"169.254.169.254":         false,
		"172.16.0.1":              false,
		"172.31.255.255":          false,
		"192.0.0.192":             false,
		"192.0.2.1":               false,
		"192.88.99.1":             false,
		"192.168.1.1":             false,
		"198.18.0.1":              false,
		"198.19.255.255":          false,
		"198.51.100.7":            false,
		"203.0.113.9":             false,
		"224.0.0.1":               false,
		"239.255.255.255":         false,
		"240.0.0.1":               false,
		"255.255.255.255":         false,
		"::":                      false,
		"::1":                     false,
		"::7f00:1":                false,
		"::ffff:127.0.0.1":        false,
		"::ffff:169.254.169.254":  false,
		"::ffff:10.1.2.3":         false,
		"64:ff9b::7f00:1":         false,
		"64:ff9b::a9fe:a9fe":      false,
		"64:ff9b:1::808:808":      false,
		"100::1":                  false,
		"2001::4136:e378:8000:63": false,
		"2001:10::1":              false,
		"2001:db8::1":             false,
		"2002:7f00:1::":           false,
		"2002:808:808::1":         false,
		"3fff::1":                 false,
		"5f00::1":                 false,
		"fc00::1":                 false,
		"fd00:ec2::254":           false,
		"fe80::1":                 false,
		"fe80::1%eth0":            false,
		"2606:4700:4700::1111%1":  false,
		"fec0::1":                 false,
		"ff02::1":                 false,
	} {
		if got := public(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: public is %v, want %v", address, got, want)
		}
	}
	if public(netip.Addr{}) {
		t.Error("an invalid address is public")
	}
}

func TestTheOperatorAllowsMore(t *testing.T) {
	c := New(Options{Allow: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("fd00::/64")}})
	for address, want := range map[string]bool{
		"10.96.0.10":        true,
		"::ffff:10.96.0.10": true,
		"10.112.0.1":        false,
		"64:ff9b::a60:a":    false,
		"fd00::10":          true,
		"fd00::10%eth0":     false,
		"fd00:0:0:1::10":    false,
		"127.0.0.1":         false,
		"8.8.8.8":           true,
	} {
		if got := c.permitted(netip.MustParseAddr(address), false); got != want {
			t.Errorf("%s: permitted is %v, want %v", address, got, want)
		}
	}
}

// FuzzAddresses compares the rules with the standard library's predicates of addresses, in each way to write an IPv4
// address within IPv6.
func FuzzAddresses(f *testing.F) {
	for _, seed := range []string{
		"127.0.0.1", "8.8.8.8", "169.254.169.254", "100.64.0.1", "fe80::1", "fd00::1", "2606:4700::1", "64:ff9b::a00:1",
	} {
		address := netip.MustParseAddr(seed).As16()
		f.Add(address[:])
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		a, ok := netip.AddrFromSlice(raw)
		if !ok || !public(a) {
			return
		}
		plain := a.Unmap()
		if !plain.IsGlobalUnicast() || plain.IsPrivate() || plain.IsLoopback() || plain.IsLinkLocalUnicast() ||
			plain.IsMulticast() ||
			plain.IsUnspecified() {
			t.Errorf("%s is taken for public", a)
		}
		if a.Unmap().Is4() {
			v4 := a.Unmap().As4()
			for name, b := range map[string]netip.Addr{
				"mapped": netip.AddrFrom16(netip.AddrFrom4(v4).As16()),
				"NAT64":  netip.AddrFrom16([16]byte{0, 0x64, 0xff, 0x9b, 12: v4[0], 13: v4[1], 14: v4[2], 15: v4[3]}),
			} {
				if !public(b) {
					t.Errorf("%s is public, and %s, the same as %s, is not", a, b, name)
				}
			}
		}
		if b := a.As16(); ssrf.IPv6NAT64Prefix.Contains(a) && !public(netip.AddrFrom4([4]byte(b[12:]))) {
			t.Errorf("%s stands for an address that is not public", a)
		}
	})
}
