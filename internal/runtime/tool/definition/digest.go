package definition

import (
	"encoding/json"
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/executors"
)

// carriedOut holds the fields of a Tool that decide how its calls run, besides those of the executors. Descriptions and
// the wording of the schema are for the model; the approval timeout and the class are fixed in the call when it is
// planned.
type carriedOut struct {
	SideEffect v1alpha1.SideEffect `json:"sideEffect"`
	Policy     v1alpha1.ToolPolicy `json:"policy"`
	// Scalars are the arguments that reach the tool as environment variables, or as parameters of a URL.
	Scalars []string `json:"scalars,omitempty"`
	// Lease is kept on what the calls create.
	Lease *v1alpha1.ToolLease `json:"lease,omitempty"`
}

// digestDigits is the length of a Tool's digest: 160 bits of its SHA-256, because status must have room for 64 of them.
const digestDigits = 40

// Digest is the start of the SHA-256, in hexadecimal, of a Tool's definition. Two specs have the same digest if a call
// with the same arguments runs in the same way under both.
//
// The digest of a definition whose texts a cache has left out was recorded then.
func Digest(spec *v1alpha1.ToolSpec) string {
	if digest, ok := recordedDigest(spec); ok {
		return digest
	}
	of := carriedOut{
		SideEffect: spec.SideEffect, Policy: spec.Policy, Scalars: ScalarNames(spec.InputSchema), Lease: spec.Lease,
	}
	if of.SideEffect == "" {
		of.SideEffect = v1alpha1.SideEffectAtMostOnce
	}
	if of.Policy == "" {
		of.Policy = v1alpha1.ToolPolicyAuto
	}
	raw, err := encode(spec, of)
	if err != nil {
		// The API server has validated and encoded the spec. An empty digest matches no planned call.
		return ""
	}
	return tool.Hash("tool", string(raw))[:digestDigits]
}

// encode returns a JSON object with the fields of the executors, in the order of their registry, and then the others.
func encode(spec *v1alpha1.ToolSpec, others carriedOut) ([]byte, error) {
	object := []byte("{")
	for _, e := range executors.All() {
		value := e.Field.Of(spec)
		if value == nil {
			continue
		}
		raw, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		object = append(append(fmt.Appendf(object, "%q:", e.Field.Name), raw...), ',')
	}
	raw, err := json.Marshal(others)
	if err != nil {
		return nil, err
	}
	return append(object, raw[1:]...), nil
}

// builtinDigest is the digest of the definition of a tool that is part of the manager. It differs from that of every
// Tool.
func builtinDigest(capability, name string, class v1alpha1.SideEffect, config string) string {
	parts := []string{"builtin", capability, name, string(class)}
	if config != "" {
		parts = append(parts, config)
	}
	return tool.Hash(parts...)[:digestDigits]
}
