package inprocess

import (
	"context"
	"net/netip"

	"github.com/capstan-dev/capstan/internal/runtime/egress"
)

// serviceKey names a port of a Service.
type serviceKey struct {
	name string
	port int32
}

// services are the servers that stand for Services.
type services map[serviceKey]netip.AddrPort

var _ egress.Services = services{}

// Backends implements egress.Services.
func (s services) Backends(_ context.Context, of egress.Service) ([]egress.Backend, error) {
	server, ok := s[serviceKey{of.Name, of.Port}]
	if !ok {
		return nil, egress.NewServiceError(true, "Service %q with port %d is not set: use WithService", of.Name, of.Port)
	}
	return []egress.Backend{{Pod: of.Name, Address: server}}, nil
}

// Confirm implements egress.Services.
func (services) Confirm(context.Context, egress.Service, egress.Backend) error { return nil }
