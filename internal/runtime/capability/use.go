package capability

import (
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Use is a capability of a Session.
type Use struct {
	// ID of the capability: the name of a built-in one, or object/NAME for a Capability.
	ID string
	// Config is the configuration as JSON; empty for none.
	Config string
	// NeededBy is the id of the capability that depends on this one, if no layer names it; otherwise empty.
	NeededBy string
	// Optional reports whether all layers that name the capability can do without it.
	Optional bool
	// MaxRisk is the highest risk that every layer which names the capability accepts.
	MaxRisk v1alpha1.CapabilityRisk
}

// objectPrefix begins the ids of Capabilities, so that none of them is called like a built-in capability.
const objectPrefix = "object/"

// ObjectID is the id of the Capability of a name.
func ObjectID(name string) string { return objectPrefix + name }

// ObjectName returns the name of the Capability of an id, and whether the id is that of a Capability.
func ObjectName(id string) (string, bool) { return strings.CutPrefix(id, objectPrefix) }

// IDOf is the id of the capability that a layer names.
func IDOf(ref *v1alpha1.CapabilityReference) string { return idOf(ref.Builtin, ref.Name) }

// idOf is the id of the capability that a reference names.
func idOf(builtin, name string) string {
	if name != "" {
		return ObjectID(name)
	}
	return builtin
}

// Prompt is what a capability adds to the system prompt.
type Prompt struct {
	// ID of the capability.
	ID string
	// Text for the model. One that a cache has left out is a mark of package leftout.
	Text string
	// Config is the configuration that the model is shown, as JSON; empty for none.
	Config string
}

// MaxConfigBytes is the most that a configuration takes, as JSON. Caches keep no larger one.
const MaxConfigBytes = 2 << 10

// leftOut stands for a configuration that is too large. It is no object, so that no user can write it.
const leftOut = `"too large"`

// LeaveOutConfigs replaces configurations that are too large by a mark.
func LeaveOutConfigs(refs []v1alpha1.CapabilityReference) {
	for i := range refs {
		if c := refs[i].Config; c != nil && len(c.Raw) > MaxConfigBytes {
			refs[i].Config = &v1alpha1.JSON{Raw: []byte(leftOut)}
		}
	}
}

// TooLarge reports whether a configuration is too large, or was left out because it is.
func TooLarge(config string) bool {
	return len(config) > MaxConfigBytes || config == leftOut
}

// Merge adds the capabilities of a layer to those of the layers above it. A capability that is there already stays
// where it is, and has the configuration of the lower layer, even an empty one (CFG-03). It has the lower one of the
// accepted risks, and is optional only if it is in both layers.
func Merge(above []Use, layer []v1alpha1.CapabilityReference) []Use {
	merged := slices.Clone(above)
	for i := range layer {
		ref := &layer[i]
		use := Use{
			ID: IDOf(ref), Optional: ref.Optional != nil && *ref.Optional, MaxRisk: accepted(ref.MaxRisk),
		}
		if c := ref.Config; c != nil {
			use.Config = string(c.Raw)
		}
		at := slices.IndexFunc(merged, func(u Use) bool { return u.ID == use.ID })
		if at < 0 {
			merged = append(merged, use)
			continue
		}
		known := merged[at]
		use.Optional = known.Optional && use.Optional
		if Exceeds(use.MaxRisk, known.MaxRisk) {
			use.MaxRisk = known.MaxRisk
		}
		merged[at] = use
	}
	return merged
}

// risks are the levels of risk, the lowest first.
var risks = []v1alpha1.CapabilityRisk{
	v1alpha1.CapabilityRiskLow, v1alpha1.CapabilityRiskMedium, v1alpha1.CapabilityRiskHigh,
}

// accepted is the highest risk that a reference accepts.
func accepted(maxRisk v1alpha1.CapabilityRisk) v1alpha1.CapabilityRisk {
	if maxRisk == "" {
		return v1alpha1.CapabilityRiskMedium
	}
	return maxRisk
}

// Exceeds reports whether a risk is higher than a maxRisk. A risk that this build does not know is.
func Exceeds(risk, maxRisk v1alpha1.CapabilityRisk) bool {
	if risk == "" {
		risk = v1alpha1.CapabilityRiskLow
	}
	at := slices.Index(risks, risk)
	return at < 0 || at > slices.Index(risks, accepted(maxRisk))
}
