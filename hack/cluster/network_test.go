package main

import (
	"net"
	"net/netip"
	"testing"
)

func TestTheBridgeHasAnAddressThatNoCardHas(t *testing.T) {
	address, err := net.ParseMAC(hardwareAddress(netip.MustParseAddr("10.77.0.1")))
	if err != nil {
		t.Fatal(err)
	}
	if multicast, local := address[0]&1 != 0, address[0]&2 != 0; multicast || !local {
		t.Errorf("%s is not a locally administered unicast address", address)
	}
	if other := hardwareAddress(netip.MustParseAddr("10.77.16.1")); other == address.String() {
		t.Errorf("two clusters have the address %s", other)
	}
}
