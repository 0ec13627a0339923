package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
)

// networkInUse reports whether the host has an address inside one of the cluster's ranges, or an interface of its
// bridge's name.
func (c *cluster) networkInUse() bool {
	if _, err := net.InterfaceByName(c.bridge()); err == nil {
		return true
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, address := range addresses {
		prefix, err := netip.ParsePrefix(address.String())
		if err == nil && (prefix.Overlaps(c.podRange()) || prefix.Overlaps(c.serviceRange())) {
			return true
		}
	}
	return false
}

// portsInUse names the ports of the cluster that other processes listen on.
func (c *cluster) portsInUse() []int {
	var taken []int
	for port := c.PortBase; port <= c.schedulerPort(); port++ {
		listener, err := net.Listen("tcp", loopback(port))
		if err != nil {
			taken = append(taken, port)
			continue
		}
		listener.Close()
	}
	return taken
}

// createNetwork makes the pods' bridge. It has two addresses: the gateway of the pods, which is also the node's
// address, and the address of the Service kubernetes, so that a pod's connection to that reaches this host and the
// forwarder on it. The host forwards nothing for this; pods reach one another, the host and the API server, and no
// further.
//
// The bridge has a hardware address of its own. One that it takes from its ports changes when a pod goes, and the other
// pods then talk to an address that is no longer there until their neighbour tables find out, which takes up to a
// minute.
func (c *cluster) createNetwork(ctx context.Context) error {
	gateway := netip.PrefixFrom(c.gateway(), c.podRange().Bits()).String()
	service := netip.PrefixFrom(c.serviceAddress(), 32).String()
	for _, args := range [][]string{
		{"link", "add", "name", c.bridge(), "address", hardwareAddress(c.gateway()), "type", "bridge"},
		{"address", "add", gateway, "dev", c.bridge()},
		{"address", "add", service, "dev", c.bridge()},
		{"link", "set", "dev", c.bridge(), "up"},
	} {
		if err := runIP(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// hardwareAddress is a locally administered address that is made of an IPv4 address, so that clusters differ in it.
func hardwareAddress(address netip.Addr) string {
	four := address.As4()
	return net.HardwareAddr{0x02, 0x63, four[0], four[1], four[2], four[3]}.String()
}

// removeNetwork removes the bridge with its addresses and the host's ends of the pods' links.
func (c *cluster) removeNetwork(ctx context.Context) error {
	var failures []error
	for _, name := range c.links() {
		err := runIP(ctx, "link", "delete", "dev", name)
		// A pod's link also goes by itself, once the kernel has cleared the pod's network namespace.
		if _, gone := net.InterfaceByName(name); err != nil && gone == nil {
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}

// links are the interfaces of the cluster that still exist: the pods' first, the bridge last.
func (c *cluster) links() []string {
	if _, err := net.InterfaceByName(c.bridge()); err != nil {
		return nil
	}
	ports, _ := filepath.Glob(filepath.Join("/sys/class/net", c.bridge(), "brif", "*"))
	names := make([]string, 0, len(ports)+1)
	for _, port := range ports {
		names = append(names, filepath.Base(port))
	}
	return append(names, c.bridge())
}

func runIP(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "ip", args...)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(output))
	}
	return nil
}
