package otlp

import (
	"fmt"
	"hash/fnv"
	"math"
	"strconv"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// samplerOf returns the sampler that OTEL_TRACES_SAMPLER names. The decision is about whole traces: it depends on the
// id of the trace alone, unless the trace began elsewhere, where the flags of its context decide.
func samplerOf(getenv func(string) string) (sdk.Sampler, error) {
	name, argument := getenv("OTEL_TRACES_SAMPLER"), getenv("OTEL_TRACES_SAMPLER_ARG")
	share := 1.0
	switch name {
	case "", "parentbased_always_on", "always_on":
	case "parentbased_always_off", "always_off":
		share = 0
	case "parentbased_traceidratio", "traceidratio":
		if argument == "" {
			break
		}
		parsed, err := strconv.ParseFloat(argument, 64)
		if err != nil || !(parsed >= 0 && parsed <= 1) {
			return nil, fmt.Errorf("invalid OTEL_TRACES_SAMPLER_ARG %q: must be a number from 0 to 1", argument)
		}
		share = parsed
	default:
		return nil, fmt.Errorf("invalid OTEL_TRACES_SAMPLER %q: must be always_on, always_off or traceidratio, or one of "+
			"these with the prefix parentbased_", name)
	}
	return ratio{share: share}, nil
}

// ratio samples a share of all traces. The SDK's own sampler does not: it compares bits that are fixed in a UUID.
type ratio struct{ share float64 }

// ShouldSample implements sdk.Sampler.
func (r ratio) ShouldSample(p sdk.SamplingParameters) sdk.SamplingResult {
	parent := oteltrace.SpanContextFromContext(p.ParentContext)
	result := sdk.SamplingResult{Decision: sdk.Drop, Tracestate: parent.TraceState()}
	if (!parent.IsValid() || parent.IsSampled()) && r.share >= 1-position(p.TraceID) && r.share > 0 {
		result.Decision = sdk.RecordAndSample
	}
	return result
}

// position is where a trace is between 0 and 1.
func position(id oteltrace.TraceID) float64 {
	sum := fnv.New64a()
	_, _ = sum.Write(id[:])
	return float64(sum.Sum64()) / math.MaxUint64
}

// Description implements sdk.Sampler.
func (r ratio) Description() string {
	return fmt.Sprintf("Share{%g}", r.share)
}
