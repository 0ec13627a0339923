package provider

import (
	"fmt"
	"strconv"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Sampling are the decimals of a Model's parameters as numbers; nil leaves them to the provider.
type Sampling struct {
	// Temperature is the sampling temperature.
	Temperature *float64
	// TopP is the nucleus sampling probability mass.
	TopP *float64
}

// SamplingOf parses the decimals of a Model's parameters. The API server validates them, so that an error means that
// the Model is from another source.
func SamplingOf(p v1alpha1.ModelParameters) (Sampling, error) {
	temperature, err := decimal("temperature", p.Temperature)
	if err != nil {
		return Sampling{}, err
	}
	topP, err := decimal("topP", p.TopP)
	if err != nil {
		return Sampling{}, err
	}
	return Sampling{Temperature: temperature, TopP: topP}, nil
}

func decimal(name string, given *string) (*float64, error) {
	if given == nil {
		return nil, nil
	}
	number, err := strconv.ParseFloat(*given, 64)
	if err != nil {
		return nil, fmt.Errorf("invalid %s %q: must be a decimal", name, *given)
	}
	return &number, nil
}
