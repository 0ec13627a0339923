package crash_test

import (
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// compacts gives a Session the capability that shortens long conversations, with the least threshold.
func compacts(spec *v1alpha1.SessionSpec) {
	spec.Capabilities = append(spec.Capabilities, v1alpha1.CapabilityReference{
		Builtin: "compaction", Config: &v1alpha1.JSON{Raw: []byte(`{"threshold":256,"keepMessages":2}`)},
	})
}

// compacted are conversations that are compacted, also in the middle of a Turn. A kill between the summary and its
// entry has it written again; the entry that exists is used.
var compacted = []scenario{
	{
		name: "a long conversation that is compacted",
		simulation: v1alpha1.Simulation{Response: &v1alpha1.SimulatedResponse{
			Type: v1alpha1.SimulatedResponseTypeFixed, Text: strings.Repeat("A long answer. ", 40),
		}},
		session: compacts,
		turns:   []string{"demo-1", "demo-2", "demo-3"},
	},
}
