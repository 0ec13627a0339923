package tool

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// carriedOut holds the fields of a Tool that decide how its calls run. Descriptions and the wording of the schema are
// for the model; the approval timeout and the class are fixed in the call when it is planned.
type carriedOut struct {
	Job        *v1alpha1.JobTool    `json:"job,omitempty"`
	HTTP       *v1alpha1.HTTPTool   `json:"http,omitempty"`
	Client     *v1alpha1.ClientTool `json:"client,omitempty"`
	SideEffect v1alpha1.SideEffect  `json:"sideEffect"`
	Policy     v1alpha1.ToolPolicy  `json:"policy"`
	// Scalars are the arguments that reach the tool as environment variables, or as parameters of a URL.
	Scalars []string `json:"scalars,omitempty"`
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
		Job: spec.Job, HTTP: spec.HTTP, Client: spec.Client, SideEffect: spec.SideEffect, Policy: spec.Policy,
		Scalars: scalarNames(spec.InputSchema),
	}
	if of.SideEffect == "" {
		of.SideEffect = v1alpha1.SideEffectAtMostOnce
	}
	if of.Policy == "" {
		of.Policy = v1alpha1.ToolPolicyAuto
	}
	raw, err := json.Marshal(of)
	if err != nil {
		// The API server has validated and encoded the spec. An empty digest matches no planned call.
		return ""
	}
	return hash("tool", string(raw))[:digestDigits]
}

// CallDigest is the SHA-256, in hexadecimal, over everything that an approval of a call covers: the Turn, the step that
// runs the call, the call, the Tool as it is pinned in the call, and the arguments for the tool.
func CallDigest(turn types.UID, step int32, call v1alpha1.ToolCall, arguments string) string {
	return hash("call", string(turn), decimal(step), call.ID, string(call.ToolUID), call.ToolDigest, Given(arguments))
}

// BuiltinDigest is the digest of the definition of a tool that is part of the manager. It differs from that of every
// Tool.
func BuiltinDigest(capability, name string, class v1alpha1.SideEffect) string {
	return hash("builtin", capability, name, string(class))[:digestDigits]
}
