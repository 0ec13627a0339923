package google

import (
	"regexp"
	"slices"
	"strings"

	"google.golang.org/genai"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

// thinker has the values with which the models of one kind are configured how much to think: numbers of tokens or
// levels, for None, Low, Medium and High.
type thinker struct {
	names   *regexp.Regexp
	budgets []int32
	levels  []genai.ThinkingLevel
}

// thinkers lists the configurable models. It follows ai.google.dev/gemini-api/docs/thinking (read 2026-11):
//
//   - 2.5 takes a budget: Pro from 128 tokens on, which cannot be turned off, Flash from 0, Flash-Lite 0 or from 512;
//     the numbers are those that Google's OpenAI-compatible API uses for these words;
//   - later ones take a level: 3 Pro low and high, 3.1 Pro and later low, medium and high, Flash minimal as well, but
//     3.7 Flash.
//
// None is the minimum of a model. A model that is not listed receives no setting. By default Gemini thinks since 2.5,
// except for 2.5 Flash-Lite.
var thinkers = []thinker{
	{names: regexp.MustCompile(`^gemini-2\.5-pro`), budgets: []int32{128, 1024, 8192, 24576}},
	{names: regexp.MustCompile(`^gemini-2\.5-flash`), budgets: []int32{0, 1024, 8192, 24576}},
	{names: regexp.MustCompile(`^gemini-3-pro`), levels: []genai.ThinkingLevel{
		genai.ThinkingLevelLow, genai.ThinkingLevelLow, genai.ThinkingLevelHigh, genai.ThinkingLevelHigh,
	}},
	{names: regexp.MustCompile(`^gemini-3(\.[0-9]+)-pro`), levels: []genai.ThinkingLevel{
		genai.ThinkingLevelLow, genai.ThinkingLevelLow, genai.ThinkingLevelMedium, genai.ThinkingLevelHigh,
	}},
	{names: regexp.MustCompile(`^gemini-3\.7-flash`), levels: []genai.ThinkingLevel{
		genai.ThinkingLevelLow, genai.ThinkingLevelLow, genai.ThinkingLevelMedium, genai.ThinkingLevelHigh,
	}},
	{names: regexp.MustCompile(`^gemini-3(\.[0-6])?-flash`), levels: []genai.ThinkingLevel{
		genai.ThinkingLevelMinimal, genai.ThinkingLevelLow, genai.ThinkingLevelMedium, genai.ThinkingLevelHigh,
	}},
}

// thoughtless are the name prefixes of the Gemini models that think only on request.
var thoughtless = []string{"gemini-1.", "gemini-2.0", "gemini-2.5-flash-lite"}

// Reasons implements model.Reasoner. The reasoning is not requested, so that the model sends nothing while it thinks.
func (d *driver) Reasons(r model.Request) bool {
	if setting := thinking(d.parameters.ReasoningEffort, r.Model); setting != nil {
		return setting.ThinkingBudget == nil || *setting.ThinkingBudget > 0
	}
	name := ownName(r.Model)
	return strings.HasPrefix(name, "gemini-") &&
		!slices.ContainsFunc(thoughtless, func(older string) bool { return strings.HasPrefix(name, older) })
}

// ownName is a model's name without the collection that it is in.
func ownName(model string) string {
	return strings.TrimPrefix(model, "models/")
}

var places = map[v1alpha1.ReasoningEffort]int{
	v1alpha1.ReasoningEffortNone:   0,
	v1alpha1.ReasoningEffortLow:    1,
	v1alpha1.ReasoningEffortMedium: 2,
	v1alpha1.ReasoningEffortHigh:   3,
}

// thinking is the thinking setting for a model; nil leaves it to the model.
func thinking(effort v1alpha1.ReasoningEffort, model string) *genai.ThinkingConfig {
	place, asked := places[effort]
	if !asked {
		return nil
	}
	model = ownName(model)
	for _, t := range thinkers {
		switch {
		case !t.names.MatchString(model):
		case t.budgets != nil:
			return &genai.ThinkingConfig{ThinkingBudget: &t.budgets[place]}
		default:
			return &genai.ThinkingConfig{ThinkingLevel: t.levels[place]}
		}
	}
	return nil
}
