package provider

import (
	"net/http"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Options of a driver.
type Options struct {
	// HTTP sends every request.
	HTTP *http.Client
	// BaseURL of the provider's API; empty for the provider's own.
	BaseURL string
	// Key is the API key. It is in no error and no result. Empty for servers that need none.
	Key string
	// Parameters of the Model.
	Parameters v1alpha1.ModelParameters
}
