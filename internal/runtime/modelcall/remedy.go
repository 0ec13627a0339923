package modelcall

import (
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
)

// remedy returns the action for the user about a failed call of a Model, with the names of the objects to change. It is
// empty if the sentence of the code is sufficient, and if there is no Model. refusal is the error of the Model's
// driver; it may be nil.
func remedy(code v1alpha1.ErrorCode, m *v1alpha1.Model, refusal *provider.Error) string {
	if m == nil {
		return ""
	}
	const further = "then create another Turn"
	switch code {
	case v1alpha1.ErrorCodeProviderMisconfigured:
		if refusal != nil && refusal.Status == 0 {
			if m.Spec.ServiceRef != nil {
				return fmt.Sprintf("Correct serviceRef of Model %q, or the Service that it names; %s.", m.Name, further)
			}
			return fmt.Sprintf("Correct baseURL of Model %q, or ask the operator of the manager to allow its address "+
				"(--egress-config); %s.", m.Name, further)
		}
		return fmt.Sprintf("Store a valid API key in %s, and check baseURL of the Model; %s.",
			keyPlace(m), further)
	case v1alpha1.ErrorCodeProviderQuotaExhausted:
		return fmt.Sprintf("Raise the provider's quota for the API key in %s, or add fallbacks to the Model; %s.",
			keyPlace(m), further)
	case v1alpha1.ErrorCodeModelUnavailable:
		return fmt.Sprintf("Correct spec.model of Model %q (%q), or permit that model for the API key in %s; %s.",
			m.Name, model.Name(m), keyPlace(m), further)
	case v1alpha1.ErrorCodeProviderRateLimited, v1alpha1.ErrorCodeProviderUnavailable:
		return fmt.Sprintf("Create another Turn later, or add fallbacks to Model %q.", m.Name)
	case v1alpha1.ErrorCodeProcessingError:
		return fmt.Sprintf("Correct the parameters of Model %q or the tools of the Session; %s.", m.Name, further)
	default:
		return ""
	}
}

// keyPlace names where the API key of a Model is.
func keyPlace(m *v1alpha1.Model) string {
	if ref := m.Spec.SecretKeyRef; ref != nil {
		return fmt.Sprintf("key %q of Secret %q, used by Model %q", ref.Key, ref.Name, m.Name)
	}
	return fmt.Sprintf("a Secret that is referenced by secretKeyRef of Model %q", m.Name)
}
