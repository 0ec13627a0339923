package controller

import (
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/drivers"
)

// Models are the providers that the manager has (MODEL-03).
func Models() model.Registry {
	return drivers.All()
}
