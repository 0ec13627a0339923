package otlp

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/capstan-dev/capstan/internal/runtime/semconv"
	"github.com/capstan-dev/capstan/internal/runtime/trace"
	receiver "github.com/capstan-dev/capstan/internal/testing/otlp"
)

const traceID = "6f8a1c9e00004000800000000000abcd"

// env returns the values of variables, which the exporters read themselves as well.
func env(t *testing.T, values ...string) func(string) string {
	t.Helper()
	given := map[string]string{}
	for i := 0; i < len(values); i += 2 {
		given[values[i]] = values[i+1]
		t.Setenv(values[i], values[i+1])
	}
	return func(name string) string { return given[name] }
}

func exporter(t *testing.T, values ...string) *Exporter {
	t.Helper()
	e, err := New(t.Context(), Options{Getenv: env(t, values...), Version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func span(id, parent string) trace.Span {
	now := time.Unix(1000, 0)
	return trace.Span{
		Trace: traceID, ID: id, Parent: parent, Flags: "01", Name: "chat m", Start: now, End: now.Add(time.Second),
		Attributes: []attribute.KeyValue{attribute.String("a", "b")},
	}
}

func TestSpansHaveTheGivenIDsAndTimes(t *testing.T) {
	r := receiver.New()
	defer r.Close()
	e := exporter(t, "OTEL_EXPORTER_OTLP_ENDPOINT", r.URL(), "OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=x")
	failed := span("00000000000000b2", "00000000000000a1")
	failed.Error, failed.Client = "timeout", true
	e.Export([]trace.Span{failed, span("00000000000000a1", "00000000000000ff"), span("zz", "")})
	if err := e.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	spans := r.Spans(traceID)
	if len(spans) != 2 {
		t.Fatalf("the spans are %+v", spans)
	}
	root, err := receiver.Root(spans, "00000000000000ff")
	if err != nil || root.ID != "00000000000000a1" {
		t.Errorf("the root is %+v, %v", root, err)
	}
	for _, s := range spans {
		if s.SchemaURL != semconv.SchemaURL || s.Attributes["resource.service.name"] != "capstan" ||
			s.Attributes["resource.deployment.environment.name"] != "x" || s.Attributes["a"] != "b" {
			t.Errorf("the span is %+v", s)
		}
		if want := s.ID == failed.ID; s.Failed != want || s.Client != want {
			t.Errorf("the span is %+v", s)
		}
		if s.Start.Unix() != 1000 || s.End.Unix() != 1001 {
			t.Errorf("the times are %s and %s", s.Start, s.End)
		}
	}
}

func TestNothingIsExportedUnlessAnEndpointIsSet(t *testing.T) {
	const (
		endpoint, exporter = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_TRACES_EXPORTER"
		protocol, sampler  = "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_TRACES_SAMPLER"
	)
	for name, test := range map[string]struct {
		values []string
		on     bool
		err    string
	}{
		"nothing":      {nil, false, ""},
		"an endpoint":  {[]string{endpoint, "http://127.0.0.1:1"}, true, ""},
		"for traces":   {[]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:1/v1/traces"}, true, ""},
		"for metrics":  {[]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://127.0.0.1:1"}, false, ""},
		"the default":  {[]string{exporter, "otlp"}, true, ""},
		"none":         {[]string{exporter, "none", endpoint, "http://a"}, false, ""},
		"disabled":     {[]string{"OTEL_SDK_DISABLED", "true", endpoint, "http://a"}, false, ""},
		"by gRPC":      {[]string{protocol, "grpc", endpoint, "http://a:1"}, true, ""},
		"by JSON":      {[]string{protocol, "http/json", exporter, "otlp"}, false, "PROTOCOL"},
		"another":      {[]string{exporter, "zipkin"}, false, exporter},
		"a sampler":    {[]string{exporter, "otlp", sampler, "jaeger_remote"}, false, "SAMPLER"},
		"a share of 2": {[]string{exporter, "otlp", sampler, "traceidratio", sampler + "_ARG", "2"}, false, "SAMPLER_ARG"},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := New(t.Context(), Options{Getenv: env(t, test.values...)})
			if (e != nil) != test.on || (test.err == "") != (err == nil) ||
				err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("an exporter: %t, %v", e != nil, err)
			}
		})
	}
}

// The queue is bounded, so that neither time nor memory grows with what a collector does not accept.
func TestACollectorThatHangsDelaysNothing(t *testing.T) {
	r := receiver.New()
	defer r.Close()
	r.Hang()
	e := exporter(t, "OTEL_EXPORTER_OTLP_ENDPOINT", r.URL())
	const spans = 20 * queue
	began := time.Now()
	for i := range spans {
		e.Export([]trace.Span{span(hexID(i+1), "")})
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("%d spans took %s", spans, took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if e.Flush(ctx) == nil {
		t.Error("the collector did not hang")
	}
	r.Release()
	if got := r.Len(); got > queue+batch {
		t.Errorf("%d spans were kept", got)
	}
}

func hexID(n int) string {
	const digits = "0123456789abcdef"
	id := []byte(strings.Repeat("0", 16))
	for i := len(id) - 1; n > 0; i, n = i-1, n/16 {
		id[i] = digits[n%16]
	}
	return string(id)
}

func TestAShareOfAllTracesIsSampled(t *testing.T) {
	sampler, err := samplerOf(env(t, "OTEL_TRACES_SAMPLER", "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG", "0.25"))
	if err != nil {
		t.Fatal(err)
	}
	sampled := 0
	for range 4000 {
		id := oteltrace.TraceID(uuid.New())
		if sampler.ShouldSample(sdk.SamplingParameters{TraceID: id}).Decision == sdk.RecordAndSample {
			sampled++
		}
	}
	if sampled < 800 || sampled > 1200 {
		t.Errorf("%d of 4000 traces are sampled", sampled)
	}
}

func TestTheFlagsOfAGivenTraceDecide(t *testing.T) {
	for flags, want := range map[oteltrace.TraceFlags]sdk.SamplingDecision{0: sdk.Drop, 1: sdk.RecordAndSample} {
		parent := oteltrace.NewSpanContext(oteltrace.SpanContextConfig{
			TraceID: oteltrace.TraceID{1}, SpanID: oteltrace.SpanID{1}, TraceFlags: flags,
		})
		got := ratio{share: 1}.ShouldSample(sdk.SamplingParameters{
			ParentContext: oteltrace.ContextWithSpanContext(t.Context(), parent), TraceID: oteltrace.TraceID{1},
		})
		if got.Decision != want {
			t.Errorf("with the flags %s: %v", flags, got.Decision)
		}
	}
}
