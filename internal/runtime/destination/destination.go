// Package destination returns where the requests of Models, HTTP tools and MCPServers go: to a url, or to a Service of
// the namespace.
package destination

import (
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
)

// Of returns the URL of requests for a namespace, to a given url or to a Service, and the route to it.
func Of(namespace, url string, ref *v1alpha1.ServiceReference) (string, egress.Route) {
	route := egress.Route{Namespace: namespace}
	if ref == nil {
		return url, route
	}
	route.Service = &egress.Service{Namespace: namespace, Name: ref.Name, Port: ref.Port}
	return route.Service.URL(scheme(ref), ref.Path), route
}

// scheme is that of URLs of a Service.
func scheme(ref *v1alpha1.ServiceReference) string {
	if ref.Scheme == "" {
		return strings.ToLower(string(v1alpha1.ServiceSchemeHTTP))
	}
	return strings.ToLower(string(ref.Scheme))
}
