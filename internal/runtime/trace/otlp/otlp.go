// Package otlp exports spans by OTLP, as the standard variables OTEL_* request. It never delays a Turn: spans wait in a
// queue of bounded length, and are dropped while it is full.
package otlp

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/capstan-dev/capstan/internal/runtime/semconv"
	"github.com/capstan-dev/capstan/internal/runtime/trace"
)

const (
	// queue is the number of spans that wait at most, and batch the number of spans in a request.
	queue = 4096
	batch = 512
	// delay is how long a span waits for others.
	delay = time.Second
	// timeout is how long a request may take.
	timeout = 10 * time.Second
	// maxAttributeBytes bounds the value of an attribute. The texts of a span are shorter.
	maxAttributeBytes = 2 * trace.MaxContentBytes
)

// Options are the settings of an Exporter.
type Options struct {
	// Getenv reads the standard variables. The exporters read those of the endpoint, headers and certificates themselves.
	Getenv func(string) string
	// Version of the program.
	Version string
	// Content adds the texts of users, models and tools to the spans.
	Content bool
}

// Exporter exports spans. It is a trace.Sink.
type Exporter struct {
	provider *sdk.TracerProvider
	tracer   oteltrace.Tracer
	content  bool
}

// New returns the Exporter that the environment requests; nil if it requests none: no endpoint is set.
func New(ctx context.Context, o Options) (*Exporter, error) {
	protocol, wanted, err := protocolOf(o.Getenv)
	if err != nil || !wanted {
		return nil, err
	}
	exporter, err := exporterOf(ctx, protocol)
	if err != nil {
		return nil, fmt.Errorf("creating the exporter of spans: %w", err)
	}
	sampler, err := samplerOf(o.Getenv)
	if err != nil {
		return nil, err
	}
	described, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", semconv.ServiceName), attribute.String("service.version", o.Version),
	), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("reading OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	limits := sdk.NewSpanLimits()
	limits.AttributeValueLengthLimit = maxAttributeBytes
	provider := sdk.NewTracerProvider(
		sdk.WithBatcher(exporter, sdk.WithMaxQueueSize(queue), sdk.WithMaxExportBatchSize(batch),
			sdk.WithBatchTimeout(delay), sdk.WithExportTimeout(timeout)),
		sdk.WithIDGenerator(given{}), sdk.WithSampler(sampler), sdk.WithResource(described), sdk.WithRawSpanLimits(limits),
	)
	return &Exporter{
		provider: provider, content: o.Content,
		tracer: provider.Tracer("github.com/capstan-dev/capstan", oteltrace.WithInstrumentationVersion(o.Version),
			oteltrace.WithSchemaURL(semconv.SchemaURL)),
	}, nil
}

// The protocols of OTLP.
const (
	protocolHTTP = "http/protobuf"
	protocolGRPC = "grpc"
)

// protocolOf returns the protocol by which spans are exported, and whether any are.
func protocolOf(getenv func(string) string) (string, bool, error) {
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") {
		return "", false, nil
	}
	switch exporter := getenv("OTEL_TRACES_EXPORTER"); exporter {
	case "none":
		return "", false, nil
	case "otlp":
	case "":
		if getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
			return "", false, nil
		}
	default:
		return "", false, fmt.Errorf("invalid OTEL_TRACES_EXPORTER %q: must be otlp or none", exporter)
	}
	name := cmp.Or(getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), getenv("OTEL_EXPORTER_OTLP_PROTOCOL"), protocolHTTP)
	if name != protocolHTTP && name != protocolGRPC {
		return "", false, fmt.Errorf("invalid OTEL_EXPORTER_OTLP_PROTOCOL %q: must be %s or %s", name, protocolHTTP,
			protocolGRPC)
	}
	return name, true, nil
}

func exporterOf(ctx context.Context, protocol string) (sdk.SpanExporter, error) {
	if protocol == protocolGRPC {
		return otlptracegrpc.New(ctx)
	}
	return otlptracehttp.New(ctx)
}

// Content implements trace.Sink.
func (e *Exporter) Content() bool { return e.content }

// Export implements trace.Sink.
func (e *Exporter) Export(spans []trace.Span) {
	for _, s := range spans {
		e.export(s)
	}
}

// export passes one span on. One with an invalid id is left out.
func (e *Exporter) export(s trace.Span) {
	parent, id, err := contextOf(s)
	if err != nil {
		return
	}
	ctx := context.WithValue(context.Background(), wantedKey{}, id)
	kind := oteltrace.SpanKindInternal
	if s.Client {
		kind = oteltrace.SpanKindClient
	}
	options := []oteltrace.SpanStartOption{
		oteltrace.WithTimestamp(s.Start), oteltrace.WithSpanKind(kind), oteltrace.WithAttributes(s.Attributes...),
	}
	if parent.HasSpanID() {
		ctx = oteltrace.ContextWithSpanContext(ctx, parent)
	}
	_, span := e.tracer.Start(ctx, s.Name, options...)
	if s.Error != "" {
		span.SetStatus(codes.Error, "")
	}
	span.End(oteltrace.WithTimestamp(s.End))
}

// Flush sends the spans that wait, within the time of the context.
func (e *Exporter) Flush(ctx context.Context) error {
	if e == nil {
		return nil
	}
	if err := e.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("sending the last spans: %w", err)
	}
	return nil
}

// wantedKey is the key of the ids of a span in a context.
type wantedKey struct{}

// wanted are the ids that a span is to have.
type wanted struct {
	trace oteltrace.TraceID
	span  oteltrace.SpanID
}

// contextOf returns the parent of a span and the ids that it is to have.
func contextOf(s trace.Span) (oteltrace.SpanContext, wanted, error) {
	var id wanted
	var parent oteltrace.SpanID
	var flags [1]byte
	for _, field := range []struct {
		text string
		into []byte
	}{{s.Trace, id.trace[:]}, {s.ID, id.span[:]}, {s.Parent, parent[:]}, {s.Flags, flags[:]}} {
		if field.text == "" {
			continue
		}
		if n, err := hex.Decode(field.into, []byte(field.text)); err != nil || n != len(field.into) {
			return oteltrace.SpanContext{}, id, fmt.Errorf("invalid id %q", field.text)
		}
	}
	return oteltrace.NewSpanContext(oteltrace.SpanContextConfig{
		TraceID: id.trace, SpanID: parent, TraceFlags: oteltrace.TraceFlags(flags[0]), Remote: s.Remote,
	}), id, nil
}

// given is an IDGenerator: spans have the ids that their context has.
type given struct{}

// NewIDs implements IDGenerator.
func (given) NewIDs(ctx context.Context) (oteltrace.TraceID, oteltrace.SpanID) {
	id, _ := ctx.Value(wantedKey{}).(wanted)
	return id.trace, id.span
}

// NewSpanID implements IDGenerator.
func (given) NewSpanID(ctx context.Context, _ oteltrace.TraceID) oteltrace.SpanID {
	id, _ := ctx.Value(wantedKey{}).(wanted)
	return id.span
}
