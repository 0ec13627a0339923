// Package providers has the drivers of the real model providers, for tests whose Models are at a server of the test
// that has the API of a provider. The SDKs of the providers are compiled with this package, and with no other one of
// capstantest.
package providers

import (
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/drivers"
)

// Drivers are the drivers of model providers. capstantest.Providers and inprocess.Providers are the same type.
type Drivers = model.Registry

// All returns the drivers of the manager, for capstantest.Options.Providers and inprocess.WithProviders.
func All() Drivers {
	return drivers.All()
}
