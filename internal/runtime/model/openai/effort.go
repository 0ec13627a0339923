package openai

import (
	"regexp"
	"strconv"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

// toolRule is the constraint of a model on reasoning_effort in a request with tools.
type toolRule int

const (
	// toolsFree: the effort does not matter.
	toolsFree toolRule = iota
	// toolsWithoutEffort: no effort may be sent.
	toolsWithoutEffort
	// toolsWithNone: the effort must be none.
	toolsWithNone
)

// reasoning describes the values of reasoning_effort that a model accepts on Chat Completions, and the parameters that
// it refuses in combination.
type reasoning struct {
	// efforts are the values for None, Low, Medium and High; an empty one is not sent.
	efforts [4]shared.ReasoningEffort
	tools   toolRule
	// byDefault: the model reasons when no effort is sent.
	byDefault bool
	// sampled: temperature and top_p are accepted: never, only without reasoning, or always.
	sampled sampling
}

type sampling int

const (
	sampledNever sampling = iota
	sampledWithoutReasoning
	sampledAlways
)

// levels are the efforts of the older reasoning models, which always reason.
var (
	levels = [4]shared.ReasoningEffort{
		"", shared.ReasoningEffortLow, shared.ReasoningEffortMedium,
		shared.ReasoningEffortHigh,
	}
	fromLowest = [4]shared.ReasoningEffort{shared.ReasoningEffortMinimal, levels[1], levels[2], levels[3]}
	fromNone   = [4]shared.ReasoningEffort{shared.ReasoningEffortNone, levels[1], levels[2], levels[3]}
)

// gpt5 matches gpt-5 and its minor versions, with a date or a size behind, but none of the kinds that differ: pro takes
// only some efforts, chat-latest and codex only one or none on this API.
var gpt5 = regexp.MustCompile(
	`^gpt-5(?:\.([0-9]{1,2}))?(?:-(?:mini|nano|sol|terra|luna))?(?:-20[0-9]{2}-[0-9]{2}-[0-9]{2})?$`)

// oSeries matches o1, o3, o3-mini, o4-mini, with a date behind.
var oSeries = regexp.MustCompile(`^o[134](?:-mini)?(?:-20[0-9]{2}-[0-9]{2}-[0-9]{2})?$`)

// reasoningFamily matches the names of models that reason by default, unless reasoningOf has an entry: the variants of
// gpt-5, and later models.
var reasoningFamily = regexp.MustCompile(`^(?:o[1-9](?:-|$)|gpt-(?:5|[6-9])(?:[.-]|$))`)

// reasoningOf returns the reasoning settings of a model. It reports false for a model that does not reason or is
// unknown, to which no effort is sent. It follows these public sources:
//
//   - the values of each model: github.com/anomalyco/models.dev/pull/2351 (2026-06), which cites OpenAI's page of each
//     model; "none" instead of "minimal" since gpt-5.1: github.com/openai/openai-dotnet/pull/877 (2025-12);
//   - gpt-5.4 and 5.5 refuse tools beside an effort: github.com/openai/openai-openapi/issues/541 (2026-05),
//     github.com/pipecat-ai/pipecat/issues/4043 (2026-03);
//   - gpt-5.6 and its sizes refuse tools unless the effort is none: github.com/BerriAI/litellm/pull/34569 (2026-07),
//     github.com/livekit/agents/pull/7169 (2026-09);
//   - without an effort, models before gpt-5.1 reason and gpt-5.1 does not: OpenAI's description of reasoning_effort;
//     neither does gpt-5.2, but gpt-5.5 does: github.com/BerriAI/litellm-docs/pull/1066 (2026-08), and gpt-5.6:
//     github.com/UKGovernmentBEIS/inspect_ai/issues/5162 (2026-09);
//   - gpt-5 refuses temperature: community.openai.com/t/gpt-5-models-temperature/1337957 (2025-08), later ones unless
//     the effort is none: github.com/langgenius/dify-official-plugins/pull/2821 (2026-04).
func reasoningOf(model string) (reasoning, bool) {
	model = ownName(model)
	if oSeries.MatchString(model) {
		return reasoning{efforts: levels, byDefault: true}, true
	}
	if strings.HasPrefix(model, "gpt-oss-") {
		return reasoning{efforts: levels, byDefault: true, sampled: sampledAlways}, true
	}
	match := gpt5.FindStringSubmatch(model)
	if match == nil {
		return reasoning{}, false
	}
	minor, _ := strconv.Atoi(match[1])
	switch {
	case minor == 0:
		return reasoning{efforts: fromLowest, byDefault: true}, true
	case minor <= 3:
		return reasoning{efforts: fromNone, sampled: sampledWithoutReasoning}, true
	case minor == 4:
		return reasoning{efforts: fromNone, sampled: sampledWithoutReasoning, tools: toolsWithoutEffort}, true
	case minor == 5:
		return reasoning{
			efforts:   fromNone,
			sampled:   sampledWithoutReasoning,
			tools:     toolsWithoutEffort,
			byDefault: true,
		}, true
	case minor == 6:
		return reasoning{efforts: fromNone, sampled: sampledWithoutReasoning, tools: toolsWithNone, byDefault: true}, true
	default:
		return reasoning{}, false
	}
}

// ownName is a model's name without the provider prefix of gateways.
func ownName(model string) string {
	return strings.ToLower(model[strings.LastIndex(model, "/")+1:])
}

var places = map[v1alpha1.ReasoningEffort]int{
	v1alpha1.ReasoningEffortNone:   0,
	v1alpha1.ReasoningEffortLow:    1,
	v1alpha1.ReasoningEffortMedium: 2,
	v1alpha1.ReasoningEffortHigh:   3,
}

// reason sets the reasoning effort, and the sampling parameters if they are accepted in combination.
func (d *driver) reason(body *sdk.ChatCompletionNewParams) {
	r, known := reasoningOf(body.Model)
	if !known {
		d.sample(body)
		return
	}
	effort, reasons := r.effortFor(d.parameters.ReasoningEffort, len(body.Tools) > 0)
	body.ReasoningEffort = effort
	if r.sampled == sampledAlways || r.sampled == sampledWithoutReasoning && !reasons {
		d.sample(body)
	}
}

// effortFor returns the effort for a model, and whether the model then reasons.
func (r reasoning) effortFor(effort v1alpha1.ReasoningEffort, tools bool) (sent shared.ReasoningEffort, reasons bool) {
	if place, ok := places[effort]; ok {
		sent = r.efforts[place]
	}
	if tools {
		switch r.tools {
		case toolsWithoutEffort:
			sent = ""
		case toolsWithNone:
			sent = shared.ReasoningEffortNone
		case toolsFree:
		}
	}
	return sent, sent != shared.ReasoningEffortNone && (sent != "" || r.byDefault)
}

// Reasons implements model.Reasoner. On this API a model does not send its reasoning.
func (d *driver) Reasons(request model.Request) bool {
	r, known := reasoningOf(request.Model)
	if !known {
		return mayReason(request.Model)
	}
	_, reasons := r.effortFor(d.parameters.ReasoningEffort, len(request.Tools) > 0)
	return reasons
}

// sample sets the sampling parameters.
func (d *driver) sample(body *sdk.ChatCompletionNewParams) {
	if d.sampling.Temperature != nil {
		body.Temperature = param.NewOpt(*d.sampling.Temperature)
	}
	if d.sampling.TopP != nil {
		body.TopP = param.NewOpt(*d.sampling.TopP)
	}
}
