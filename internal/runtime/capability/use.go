package capability

import (
	"slices"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Use is a capability of a Session.
type Use struct {
	// ID of the capability: the name of a built-in one.
	ID string
	// Config is the configuration as JSON; empty for none.
	Config string
	// NeededBy is the id of the capability that depends on this one, if no layer names it; otherwise empty.
	NeededBy string
}

// Prompt is what a capability adds to the system prompt.
type Prompt struct {
	// ID of the capability.
	ID string
	// Text for the model.
	Text string
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
// where it is, and has the configuration of the lower layer, even an empty one (CFG-03).
func Merge(above []Use, layer []v1alpha1.CapabilityReference) []Use {
	merged := slices.Clone(above)
	for i := range layer {
		use := Use{ID: layer[i].Builtin}
		if c := layer[i].Config; c != nil {
			use.Config = string(c.Raw)
		}
		if at := slices.IndexFunc(merged, func(u Use) bool { return u.ID == use.ID }); at >= 0 {
			merged[at] = use
			continue
		}
		merged = append(merged, use)
	}
	return merged
}
