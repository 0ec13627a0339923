// Package otlp is a receiver of traces for tests: it keeps the spans that an exporter sends by OTLP over HTTP.
package otlp

import (
	"compress/gzip"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// maxBody is the size of the largest request that is read.
const maxBody = 16 << 20

// Span is a span that was received.
type Span struct {
	Trace, ID, Parent string
	Name, Scope       string
	SchemaURL         string
	Client, Failed    bool
	Start, End        time.Time
	// Attributes by name; those of the resource as well, with the prefix "resource.".
	Attributes map[string]string
	// Times is how often the span was received.
	Times int
}

// Receiver keeps spans by their ids.
type Receiver struct {
	server *httptest.Server

	mu       sync.Mutex
	spans    map[string]*Span
	requests int
	hold     chan struct{}
}

// New starts a Receiver that this machine reaches.
func New() *Receiver {
	r := &Receiver{spans: map[string]*Span{}}
	r.server = httptest.NewServer(http.HandlerFunc(r.serve))
	return r
}

// Listen starts a Receiver at a listener.
func Listen(at net.Listener) *Receiver {
	r := &Receiver{spans: map[string]*Span{}}
	r.server = httptest.NewUnstartedServer(http.HandlerFunc(r.serve))
	_ = r.server.Listener.Close()
	r.server.Listener = at
	r.server.Start()
	return r
}

// URL is the endpoint for OTEL_EXPORTER_OTLP_ENDPOINT.
func (r *Receiver) URL() string { return r.server.URL }

// Close ends the Receiver.
func (r *Receiver) Close() {
	r.Release()
	r.server.CloseClientConnections()
	r.server.Close()
}

// Hang makes the Receiver respond to no request until Release is called.
func (r *Receiver) Hang() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hold = make(chan struct{})
}

// Release ends the effect of Hang.
func (r *Receiver) Release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hold != nil {
		close(r.hold)
		r.hold = nil
	}
}

// Requests is the number of requests so far.
func (r *Receiver) Requests() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests
}

// Spans returns the spans of a trace so far, by their start.
func (r *Receiver) Spans(of string) []Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	var spans []Span
	for _, s := range r.spans {
		if s.Trace == of {
			spans = append(spans, *s)
		}
	}
	slices.SortFunc(spans, func(a, b Span) int { return a.Start.Compare(b.Start) })
	return spans
}

// Len is the number of spans of all traces.
func (r *Receiver) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.spans)
}

func (r *Receiver) serve(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	r.requests++
	hold := r.hold
	r.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-q.Context().Done():
			return
		}
	}
	if err := r.accept(q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// accept reads one request.
func (r *Receiver) accept(q *http.Request) error {
	if q.URL.Path != "/v1/traces" || q.Header.Get("Content-Type") != "application/x-protobuf" {
		return fmt.Errorf("unexpected request to %s with %s", q.URL.Path, q.Header.Get("Content-Type"))
	}
	body := io.Reader(q.Body)
	if q.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(q.Body)
		if err != nil {
			return fmt.Errorf("reading the compressed body: %w", err)
		}
		body = unzipped
	}
	raw, err := io.ReadAll(io.LimitReader(body, maxBody+1))
	if err != nil || len(raw) > maxBody {
		return errors.Join(errors.New("reading the body"), err)
	}
	var sent collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(raw, &sent); err != nil {
		return fmt.Errorf("decoding the spans: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, of := range sent.GetResourceSpans() {
		for _, scope := range of.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				r.keep(of, scope, s)
			}
		}
	}
	return nil
}

// keep keeps a span. The lock is held.
func (r *Receiver) keep(of *trace.ResourceSpans, scope *trace.ScopeSpans, s *trace.Span) {
	received := &Span{
		Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()),
		Parent: hex.EncodeToString(s.GetParentSpanId()), Name: s.GetName(), Scope: scope.GetScope().GetName(),
		SchemaURL: scope.GetSchemaUrl(), Client: s.GetKind() == trace.Span_SPAN_KIND_CLIENT,
		Failed: s.GetStatus().GetCode() == trace.Status_STATUS_CODE_ERROR,
		Start:  time.Unix(0, int64(s.GetStartTimeUnixNano())), End: time.Unix(0, int64(s.GetEndTimeUnixNano())),
		Attributes: map[string]string{}, Times: 1,
	}
	add := func(prefix string, attributes []*common.KeyValue) {
		for _, a := range attributes {
			received.Attributes[prefix+a.GetKey()] = textOf(a.GetValue())
		}
	}
	add("resource.", of.GetResource().GetAttributes())
	add("", s.GetAttributes())
	key := received.Trace + received.ID
	if known := r.spans[key]; known != nil {
		received.Times += known.Times
	}
	r.spans[key] = received
}

func textOf(v *common.AnyValue) string {
	switch value := v.GetValue().(type) {
	case *common.AnyValue_StringValue:
		return value.StringValue
	case *common.AnyValue_IntValue:
		return fmt.Sprint(value.IntValue)
	case *common.AnyValue_DoubleValue:
		return fmt.Sprint(value.DoubleValue)
	case *common.AnyValue_BoolValue:
		return fmt.Sprint(value.BoolValue)
	case *common.AnyValue_ArrayValue:
		text := ""
		for i, item := range value.ArrayValue.GetValues() {
			if i > 0 {
				text += ","
			}
			text += textOf(item)
		}
		return text
	default:
		return ""
	}
}

// Root returns the root of the tree that the spans of a trace are, and an error if they are none: another span without
// a parent among them, or one whose parent is missing. outside is the parent of the root; empty for none.
func Root(spans []Span, outside string) (Span, error) {
	byID := map[string]Span{}
	for _, s := range spans {
		byID[s.ID] = s
	}
	var roots []Span
	for _, s := range spans {
		if s.Parent == outside {
			roots = append(roots, s)
			continue
		}
		parent, found := byID[s.Parent]
		if !found {
			return Span{}, fmt.Errorf("span %s (%s) has the parent %q, which is missing", s.Name, s.ID, s.Parent)
		}
		if s.Start.Before(parent.Start) || s.End.After(parent.End) {
			return Span{}, fmt.Errorf("span %s, %s to %s, is not within %s, %s to %s", s.Name, s.Start, s.End, parent.Name,
				parent.Start, parent.End)
		}
	}
	if len(roots) != 1 {
		return Span{}, fmt.Errorf("%d of %d spans are roots", len(roots), len(spans))
	}
	return roots[0], nil
}
