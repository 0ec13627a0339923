package budget

import (
	"cmp"
	"fmt"

	"github.com/shopspring/decimal"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/cost"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

const (
	// imageTokens are the least that an image counts, whatever its size in bytes: it may have many pixels in few bytes,
	// or be sent by address.
	imageTokens = 8000
	// addedTokens are those that a provider adds to a request.
	addedTokens = 1000
	// frameTokens are those that a provider adds to a message, a part of it, or the definition of a tool.
	frameTokens = 32
	// simulatedTokens are those of a response of a simulated Model, which has no parameters.
	simulatedTokens = 8192
	// defaultCurrency is that of a price without one, by the default of the API.
	defaultCurrency = "USD"
)

// NeedsPriceError is why a Model cannot be called under a Budget in a currency.
type NeedsPriceError struct {
	// Model and Budget are their names; Problem is what the Model lacks.
	Model, Budget, Problem string
}

// Error names the objects and the remedy.
func (e *NeedsPriceError) Error() string {
	return fmt.Sprintf("Model %q cannot be used under Budget %q: %s. Complete the Model, or use another one.",
		e.Model, e.Budget, e.Problem)
}

// Refusal returns the refusal of a call for which no other Model can be used.
func (e *NeedsPriceError) Refusal() *Refusal {
	return &Refusal{Budget: e.Budget, Reason: v1alpha1.ReasonBudgetNeedsPrice, Message: e.Error()}
}

// ErrorCode implements model.Coded.
func (e *NeedsPriceError) ErrorCode() v1alpha1.ErrorCode { return v1alpha1.ErrorCodeModelUnavailable }

// InputTokens returns how many tokens the provider reads of a request at most: one for each byte of it, and what the
// provider adds.
func InputTokens(r model.Request) int64 {
	tokens := int64(addedTokens + len(r.SystemPrompt) + len(r.Locale) + len(r.User))
	for _, m := range r.Messages {
		tokens += messageTokens(m)
	}
	for _, t := range r.Tools {
		tokens += int64(frameTokens + len(t.Name) + len(t.Description) + len(t.InputSchema))
	}
	return tokens
}

// messageTokens returns how many tokens a message has at most.
func messageTokens(m event.Message) int64 {
	tokens := frameTokens + len(m.ToolCallID) + len(m.ToolName) + len(m.Error) + 2*len(m.Fence)
	for _, p := range m.Content {
		tokens += frameTokens + p.Reasoning.Bytes()
		if p.Type == event.PartImage {
			tokens += max(imageTokens, len(p.Base64)+len(p.URL))
			continue
		}
		tokens += len(p.Text) + len(p.ToolCallID)
	}
	for _, c := range m.ToolCalls {
		tokens += frameTokens + len(c.ID) + len(c.ProviderID) + len(c.Name) + len(c.Arguments)
	}
	return int64(tokens)
}

// OutputTokens returns how many tokens a response of a Model has at most; 0 if that is not known.
func OutputTokens(m *v1alpha1.Model) int64 {
	if m.Spec.Provider == v1alpha1.ModelProviderSimulated {
		return simulatedTokens // Its responses are those of its script.
	}
	if p := m.Spec.Parameters; p != nil && p.MaxOutputTokens != nil {
		return int64(*p.MaxOutputTokens)
	}
	return 0
}

// WorstCase returns the most that a call of a Model with a request may cost under a Budget, in its unit.
func WorstCase(b *v1alpha1.Budget, m *v1alpha1.Model, r model.Request) (decimal.Decimal, *NeedsPriceError) {
	input, output := InputTokens(r), OutputTokens(m)
	lacks := func(problem string) (decimal.Decimal, *NeedsPriceError) {
		return decimal.Zero, &NeedsPriceError{Model: m.Name, Budget: b.Name, Problem: problem}
	}
	if output == 0 {
		return lacks("it has no spec.parameters.maxOutputTokens")
	}
	if b.Spec.Unit == v1alpha1.BudgetUnitTokens {
		return decimal.NewFromInt(input + output), nil
	}
	price := m.Spec.Price
	switch {
	case price == nil:
		return lacks("it has no spec.price")
	case cmp.Or(price.Currency, defaultCurrency) != b.Spec.Currency:
		return lacks(fmt.Sprintf("its spec.price is in %s, not in %s", price.Currency, b.Spec.Currency))
	}
	dearest := decimal.Zero
	for _, usage := range []model.Usage{
		{InputTokens: input, OutputTokens: output},
		{InputTokens: input, CacheReadTokens: input, OutputTokens: output},
		{InputTokens: input, CacheWriteTokens: input, OutputTokens: output},
	} {
		one := cost.Of(price, usage)
		if one == nil {
			return lacks("its spec.price has an invalid amount")
		}
		amount, ok := parse(one.Amount)
		if !ok {
			return lacks("its spec.price has an invalid amount")
		}
		dearest = decimal.Max(dearest, amount)
	}
	return dearest, nil
}

// Actual returns what a call with a reported usage has cost under a Budget, in its unit, at the price that the Model
// had when it was called. It reports false if that is unknown.
func Actual(b *v1alpha1.Budget, price *v1alpha1.ModelPrice, usage model.Usage) (decimal.Decimal, bool) {
	input, output := max(usage.InputTokens, 0), max(usage.OutputTokens, 0)
	if input == 0 && output == 0 {
		return decimal.Zero, false
	}
	if b.Spec.Unit == v1alpha1.BudgetUnitTokens {
		return decimal.NewFromInt(input).Add(decimal.NewFromInt(output)), true
	}
	one := cost.Of(price, usage)
	if one == nil || cmp.Or(one.Currency, defaultCurrency) != b.Spec.Currency {
		return decimal.Zero, false
	}
	return parse(one.Amount)
}
