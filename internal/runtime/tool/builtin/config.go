package builtin

import (
	"errors"
	"fmt"

	"github.com/capstan-dev/capstan/internal/runtime/capability"
	"github.com/capstan-dev/capstan/internal/runtime/tool/inputschema"
)

// configs checks configurations against the schemas of capabilities.
var configs = inputschema.NewValidator()

// ConfigError is why the configuration of a capability cannot be used.
type ConfigError struct {
	// Problem is what is wrong with it.
	Problem string
}

// Error implements error.
func (e *ConfigError) Error() string { return "invalid config: " + e.Problem }

// checkConfig returns why a configuration does not satisfy the schema.
func (c *Capability) checkConfig(config string) error {
	if capability.TooLarge(config) {
		return &ConfigError{fmt.Sprintf("it has more than %d bytes", capability.MaxConfigBytes)}
	}
	if c.ConfigSchema == "" || c.Configure == nil {
		return &ConfigError{"the capability has no configuration"}
	}
	err := configs.Validate([]byte(c.ConfigSchema), config)
	var mismatch *inputschema.MismatchError
	switch {
	case errors.As(err, &mismatch):
		return &ConfigError{"it does not match the schema:" + mismatch.Findings}
	case err != nil:
		return &ConfigError{err.Error()}
	default:
		return nil
	}
}
