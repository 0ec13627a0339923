package modelcall

import (
	"net/http"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

// headerTraceParent is the header of a W3C trace context.
const headerTraceParent = "Traceparent"

// traced returns a client that adds the trace context of a call to the requests to a Model in the cluster, such as a
// gateway. A provider elsewhere learns nothing of the traces of the cluster.
func traced(client *http.Client, m *v1alpha1.Model, traceParent string) *http.Client {
	if client == nil || traceParent == "" || !model.InCluster(m) {
		return client
	}
	with := *client
	with.Transport = &tracing{next: client.Transport, traceParent: traceParent}
	return &with
}

// tracing is an http.RoundTripper that adds a trace context.
type tracing struct {
	next        http.RoundTripper
	traceParent string
}

// RoundTrip implements http.RoundTripper.
func (t *tracing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(headerTraceParent, t.traceParent)
	return t.next.RoundTrip(r)
}
