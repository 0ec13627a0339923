package controller

import (
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/drivers"
)

// Models returns the providers that the manager supports (MODEL-03).
func Models() model.Registry {
	return drivers.All()
}
