package anthropic

import (
	"regexp"
	"strconv"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

// generation describes how a generation of Claude thinks, and which parameters it refuses.
type generation struct {
	// budget: thinking is requested with a number of tokens (thinking.type "enabled"). Otherwise, if thinks, with
	// thinking.type "adaptive" and output_config.effort.
	budget bool
	// thinks: the model can think.
	thinks bool
	// byDefault: it thinks without a request to.
	byDefault bool
	// always: it refuses any thinking.type, because it always thinks. Only the effort is sent.
	always bool
	// unsampled: it refuses temperature and top_p.
	unsampled bool
}

// family is the models of one name and major version, of the minor versions from and up to.
type family struct {
	name            string
	major, from, up int
	generation      generation
}

// families lists the generations. It follows what Anthropic's API accepted and refused in these public reports:
//
//   - which models take "enabled" and which "adaptive", tried one by one: github.com/lidge-jun/opencodex/pull/65
//     (2026-07);
//   - Claude 4.6 takes both, 4.7 and later only "adaptive":
//     vercel.com/docs/ai-gateway/models-and-providers/reasoning/anthropic;
//   - temperature and top_p are refused by Opus 4.7 and later: github.com/OpenHands/software-agent-sdk/pull/3427
//     (2026-05);
//   - Sonnet 5 and Opus 5 think by default and take "disabled": github.com/promptfoo/promptfoo/pull/10631 (2026-09);
//   - Fable and Mythos always think and refuse "disabled" and sampling: github.com/tetsuo-ai/agenc-core/pull/1392
//     (2026-07);
//   - Haiku 5.5 and Mythos take no sampling parameters: github.com/danielmiessler/Fabric/releases/tag/v1.4.526.
//
// The versions 5.5 of Opus, Sonnet and Haiku refuse "disabled" as well.
var families = []family{
	{"sonnet", 3, 7, 7, withBudgets},
	{"sonnet", 4, 0, 5, withBudgets},
	{"sonnet", 4, 6, 6, adaptive},
	{"sonnet", 5, 0, 0, byDefault},
	{"sonnet", 5, 5, 5, always},
	{"opus", 4, 0, 5, withBudgets},
	{"opus", 4, 6, 6, adaptive},
	{"opus", 4, 7, 8, unsampled},
	{"opus", 5, 0, 0, byDefault},
	{"opus", 5, 5, 5, always},
	{"haiku", 4, 5, 5, withBudgets},
	{"haiku", 5, 5, 5, always},
	{"fable", 5, 0, 1, always},
	{"mythos", 5, 0, 1, always},
}

var (
	withBudgets = generation{thinks: true, budget: true}
	adaptive    = generation{thinks: true}
	unsampled   = generation{thinks: true, unsampled: true}
	byDefault   = generation{thinks: true, byDefault: true, unsampled: true}
	always      = generation{thinks: true, byDefault: true, always: true, unsampled: true}
)

// modelNames are the two ways in which Anthropic writes a model's name: claude-sonnet-4-5-20250929 and
// claude-3-7-sonnet-20250219. Gateways add a prefix, and write 4.5. A date is not a minor version.
var modelNames = []*regexp.Regexp{
	regexp.MustCompile(`claude-(?P<name>[a-z]+)-(?P<major>[0-9]{1,2})(?:[-.](?P<minor>[0-9]{1,2}))?(?:[^0-9.].*)?$`),
	regexp.MustCompile(`claude-(?P<major>[0-9]{1,2})(?:[-.](?P<minor>[0-9]{1,2}))?-(?P<name>[a-z]+)(?:[^a-z].*)?$`),
}

// generationOf returns the generation of a model. It reports false for an unknown model.
func generationOf(model string) (generation, bool) {
	name, major, minor, ok := version(strings.ToLower(model))
	if !ok {
		return generation{}, false
	}
	for _, f := range families {
		if f.name == name && f.major == major && f.from <= minor && minor <= f.up {
			return f.generation, true
		}
	}
	return generation{}, false
}

func version(model string) (name string, major, minor int, ok bool) {
	for _, pattern := range modelNames {
		match := pattern.FindStringSubmatch(model)
		if match == nil {
			continue
		}
		major, _ = strconv.Atoi(match[pattern.SubexpIndex("major")])
		minor, _ = strconv.Atoi(match[pattern.SubexpIndex("minor")])
		return match[pattern.SubexpIndex("name")], major, minor, true
	}
	return "", 0, 0, false
}

const (
	// DefaultMaxOutputTokens is the limit of a response without maxOutputTokens, where the model does not think: the
	// API insists on one.
	DefaultMaxOutputTokens = 8192
	// ThinkingMaxOutputTokens is that limit where the model thinks: its thoughts count as output.
	ThinkingMaxOutputTokens = 32000
	// minBudget is the minimum thinking budget that the API accepts.
	minBudget = 1024
)

// budgets are the thinking tokens of each effort, for models that accept a number.
var budgets = map[v1alpha1.ReasoningEffort]int64{
	v1alpha1.ReasoningEffortLow: 2048, v1alpha1.ReasoningEffortMedium: 8192, v1alpha1.ReasoningEffortHigh: 16000,
}

var efforts = map[v1alpha1.ReasoningEffort]sdk.OutputConfigEffort{
	v1alpha1.ReasoningEffortLow: sdk.OutputConfigEffortLow, v1alpha1.ReasoningEffortMedium: sdk.OutputConfigEffortMedium,
	v1alpha1.ReasoningEffortHigh: sdk.OutputConfigEffortHigh,
}

// reason sets the thinking and the maximum length of the response, and removes the parameters that are refused in
// combination. It reports whether the model may think, which is assumed for an unknown model. elsewhere reports whether
// the conversation is within a tool loop that began without thinking.
func (d *driver) reason(body *sdk.MessageNewParams, elsewhere bool) (thinks bool) {
	g, known := generationOf(body.Model)
	effort := d.parameters.ReasoningEffort
	if g.budget && elsewhere {
		effort = ""
	}
	asked, thinking := g.thinkingFor(effort)
	body.MaxTokens = DefaultMaxOutputTokens
	if thinking {
		body.MaxTokens = ThinkingMaxOutputTokens
	}
	if limit := d.parameters.MaxOutputTokens; limit != nil {
		body.MaxTokens = int64(*limit)
	}
	switch {
	case asked && g.budget:
		thinking = withBudget(body, budgets[effort])
	case asked:
		body.OutputConfig.Effort = efforts[effort]
		if !g.always {
			body.Thinking.OfAdaptive = &sdk.ThinkingConfigAdaptiveParam{}
		}
	case effort == v1alpha1.ReasoningEffortNone && g.byDefault && !g.always:
		disabled := sdk.NewThinkingConfigDisabledParam()
		body.Thinking.OfDisabled = &disabled
	}
	if !thinking && !g.unsampled {
		d.sample(body)
	}
	return thinking || !known
}

// thinkingFor reports whether an effort requests thinking from a model of the generation, and whether the model then
// thinks, if there is room for it.
func (g generation) thinkingFor(effort v1alpha1.ReasoningEffort) (asked, thinks bool) {
	asked = g.thinks && budgets[effort] > 0
	return asked, asked || g.byDefault && (effort != v1alpha1.ReasoningEffortNone || g.always)
}

// Reasons implements model.Reasoner. The newer models do not send their reasoning. Unknown models are assumed to think
// by default, as all do since version 5.
func (d *driver) Reasons(r model.Request) bool {
	g, known := generationOf(r.Model)
	if !known {
		_, major, _, ok := version(strings.ToLower(r.Model))
		return ok && major >= 5
	}
	_, thinks := g.thinkingFor(d.parameters.ReasoningEffort)
	if limit := d.parameters.MaxOutputTokens; thinks && g.budget && limit != nil {
		return int64(*limit)/2 >= minBudget
	}
	return thinks
}

// withBudget requests thinking with a budget, which must be below the limit of the response. It reports false if that
// leaves too little.
func withBudget(body *sdk.MessageNewParams, budget int64) bool {
	budget = min(budget, body.MaxTokens/2)
	if budget < minBudget {
		return false
	}
	body.Thinking.OfEnabled = &sdk.ThinkingConfigEnabledParam{BudgetTokens: budget}
	return true
}
