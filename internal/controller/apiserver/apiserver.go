// Package apiserver keeps requests that the manager sends for tools and models away from the API server: the manager
// may reach it from networks where a tenant's own pods may not.
package apiserver

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// interval is the time between two lookups of the addresses.
const interval = time.Minute

// name is that of the API server's EndpointSlice, which is in the namespace default.
const name = "kubernetes"

// Addresses looks up the addresses of the API server and passes them to Deny.
type Addresses struct {
	// Live reads past the cache.
	Live client.Reader
	// Hosts are the addresses at which the manager itself reaches the API server: URLs, or host:port.
	Hosts []string
	// Deny receives the addresses. They replace the earlier ones.
	Deny func([]netip.AddrPort)
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*Addresses) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable: it looks the addresses up every minute.
func (p *Addresses) Start(ctx context.Context) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if err := p.Refresh(ctx); err != nil {
			ctrl.LoggerFrom(ctx).V(1).Info("Failed to look up all addresses of the API server; retrying",
				"error", err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Refresh looks the addresses up once. Addresses that it found count even if it returns an error.
func (p *Addresses) Refresh(ctx context.Context) error {
	var places []netip.AddrPort
	for _, host := range p.Hosts {
		places = append(places, lookUp(ctx, host)...)
	}
	slice := &discoveryv1.EndpointSlice{}
	err := p.Live.Get(ctx, types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: name}, slice)
	if err == nil {
		places = append(places, endpoints(slice)...)
	}
	slices.SortFunc(places, netip.AddrPort.Compare)
	p.Deny(slices.Compact(places))
	if err != nil {
		return fmt.Errorf("reading the EndpointSlice of the API server: %w", err)
	}
	return nil
}

// endpoints are the addresses of an EndpointSlice with its ports.
func endpoints(slice *discoveryv1.EndpointSlice) []netip.AddrPort {
	var places []netip.AddrPort
	for _, endpoint := range slice.Endpoints {
		for _, text := range endpoint.Addresses {
			address, err := netip.ParseAddr(text)
			if err != nil {
				continue
			}
			for _, port := range slice.Ports {
				if port.Port != nil {
					places = append(places, netip.AddrPortFrom(address, uint16(*port.Port)))
				}
			}
		}
	}
	return places
}

// lookUp returns the addresses of a URL, or of host:port.
func lookUp(ctx context.Context, host string) []netip.AddrPort {
	if u, err := url.Parse(host); err == nil && u.Host != "" {
		host = u.Host
		if u.Port() == "" {
			host = net.JoinHostPort(u.Hostname(), "443")
		}
	}
	host, port, err := net.SplitHostPort(host)
	if err != nil {
		return nil
	}
	number, err := net.DefaultResolver.LookupPort(ctx, "tcp", port)
	if err != nil {
		return nil
	}
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil
	}
	places := make([]netip.AddrPort, len(addresses))
	for i, address := range addresses {
		places[i] = netip.AddrPortFrom(address.Unmap(), uint16(number))
	}
	return places
}
