package egress

import (
	"context"
	"crypto/x509"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// Route is for whom a request is sent, and where it may go besides public addresses. The zero value is a request that
// goes to public addresses, and to those that the operator has allowed for all.
type Route struct {
	// Namespace that the request is sent for: the rules of the Policy for it apply. Empty: none apply.
	Namespace string
	// Service is what the URL of the request stands for; nil for none. Only requests to its own URL go there.
	Service *Service
	// Roots are the certificates that servers are trusted by instead of Options.Roots; nil for those.
	Roots *x509.CertPool
	// Public restricts the request to public addresses: neither Options.Allow nor the Policy permits others. It is for
	// addresses that a user has chosen who may write neither a Tool nor a Model.
	Public bool
}

// Service is a port of a Service of Kubernetes. Requests to it reach one of its pods, without DNS.
type Service struct {
	Namespace, Name string
	Port            int32
}

// Host is the host of URLs of the Service, which certificates of its pods have to be for.
func (s Service) Host() string { return s.Name + "." + s.Namespace + serviceDomain }

// URL is an absolute URL of the Service.
func (s Service) URL(scheme, path string) string {
	return scheme + "://" + net.JoinHostPort(s.Host(), strconv.Itoa(int(s.Port))) + path
}

// is reports whether a URL is one of the Service.
func (s *Service) is(u *url.URL) bool {
	return s != nil && place(u) == net.JoinHostPort(s.Host(), strconv.Itoa(int(s.Port)))
}

const (
	serviceDomain = ".svc"
	// clusterDomain is the usual suffix of the names of Services.
	clusterDomain = ".cluster.local"
)

// serviceAt returns the Service that a host and port name.
func serviceAt(host, port string) (Service, bool) {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	name, isService := strings.CutSuffix(strings.TrimSuffix(host, clusterDomain), serviceDomain)
	service, namespace, _ := strings.Cut(name, ".")
	number, err := strconv.ParseUint(port, 10, 16)
	if !isService || err != nil || service == "" || namespace == "" || strings.Contains(namespace, ".") {
		return Service{}, false
	}
	return Service{Namespace: namespace, Name: service, Port: int32(number)}, true
}

// Backend is a pod behind a Service, and the address at which it is reached.
type Backend struct {
	// Pod and UID identify the pod in the namespace of the Service.
	Pod, UID string
	// Address is one of the pod's.
	Address netip.AddrPort
	// Selector is the Service's, by which the pod was selected.
	Selector map[string]string
}

// Services finds the pods behind Services. Errors that are an *Error may be shown to users.
type Services interface {
	// Backends returns pods that a connection to a Service may be made to now, the preferred one first.
	Backends(ctx context.Context, s Service) ([]Backend, error)
	// Confirm reads the pod of a Backend again and returns an error unless all that made it a Backend still holds.
	Confirm(ctx context.Context, s Service, b Backend) error
}

// NewServiceError returns why a Service has no Backend. With lasting, another object has to be changed first.
func NewServiceError(lasting bool, format string, args ...any) *Error {
	if lasting {
		return failure(ReasonRefused, format, args...)
	}
	return failure(ReasonUnreachable, format, args...)
}
