package provider

import (
	"fmt"
	"strconv"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Sampling are the decimals of a Model's parameters as numbers; nil leaves them to the provider.
type Sampling struct {
	// Temperature is how freely the next token is chosen.
	Temperature *float64
	// TopP limits the choice to the likeliest tokens.
	TopP *float64
}

// SamplingOf reads the decimals of a Model's parameters. The API admits no other, so that an error is a Model from
// somewhere else.
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
