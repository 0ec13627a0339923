package modelcall

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/url"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/excerpt"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
)

// bindingBytes is the length of the digest in a binding.
const bindingBytes = 16

// originOf is the origin to which the reasoning of a Model is bound.
func originOf(m *v1alpha1.Model) event.Origin {
	bound := []string{string(m.UID), string(m.Spec.Provider), hostOf(m), model.Name(m)}
	if ref := m.Spec.SecretKeyRef; ref != nil {
		bound = append(bound, ref.Name, ref.Key)
	}
	sum := sha256.Sum256([]byte(strings.Join(bound, "\n")))
	return event.Origin{
		Provider: string(
			m.Spec.Provider,
		),
		Model:   excerpt.Of(model.Name(m), 256),
		Binding: hex.EncodeToString(sum[:bindingBytes]),
	}
}

// hostOf is the host that a Model is called at; empty for one without a network.
func hostOf(m *v1alpha1.Model) string {
	endpoint, err := url.Parse(model.Endpoint(m))
	if err != nil {
		return ""
	}
	return strings.ToLower(endpoint.Host)
}

// prompt returns the messages for a Model: with the reasoning that belongs to it, or with none after the provider has
// refused it. It reports whether there is any reasoning.
func (a Result) prompt(messages []event.Message) ([]event.Message, bool) {
	if a.ReasoningDropped {
		return event.ReasoningFor(messages, "")
	}
	return event.ReasoningFor(messages, originOf(a.Model).Binding)
}

// refusesReasoning reports whether a provider refused a request because of the reasoning in it.
func refusesReasoning(err error) bool {
	var refused *provider.ReasoningRefused
	return errors.As(err, &refused)
}
