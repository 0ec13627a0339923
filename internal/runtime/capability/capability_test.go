package capability

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

func builtin(name, config string) v1alpha1.CapabilityReference {
	ref := v1alpha1.CapabilityReference{Builtin: name}
	if config != "" {
		ref.Config = &v1alpha1.JSON{Raw: []byte(config)}
	}
	return ref
}

// Rules: CFG-03, VEC-18.
func TestALowerLayerReplacesAConfigurationInPlace(t *testing.T) {
	type layer = []v1alpha1.CapabilityReference
	for name, test := range map[string]struct {
		layers []layer
		want   []Use
	}{
		"none": {},
		"further capabilities come last": {
			[]layer{{builtin("a", `{"x":1}`)}, {builtin("b", "")}}, []Use{{ID: "a", Config: `{"x":1}`}, {ID: "b"}},
		},
		"the whole configuration is replaced": {
			[]layer{{builtin("a", `{"x":1}`), builtin("b", "")}, {builtin("a", `{"y":2}`)}},
			[]Use{{ID: "a", Config: `{"y":2}`}, {ID: "b"}},
		},
		"none replaces one": {
			[]layer{{builtin("a", `{"x":1}`)}, {builtin("a", "")}}, []Use{{ID: "a"}},
		},
		"the last of one layer counts": {
			[]layer{{builtin("a", `{"x":1}`), builtin("a", `{"x":2}`)}}, []Use{{ID: "a", Config: `{"x":2}`}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range test.want {
				test.want[i].MaxRisk = v1alpha1.CapabilityRiskMedium
			}
			var merged []Use
			for _, l := range test.layers {
				before := append([]Use(nil), merged...)
				above := merged
				merged = Merge(above, l)
				if len(before) > 0 && !reflect.DeepEqual(above, before) {
					t.Errorf("the merge changed the layers above to %+v", above)
				}
			}
			if len(merged) != len(test.want) || len(merged) > 0 && !reflect.DeepEqual(merged, test.want) {
				t.Errorf("the capabilities are %+v, want %+v", merged, test.want)
			}
		})
	}
}

// A lower layer takes nothing back that a higher one demands: neither the capability nor its limit of risk.
func TestALayerCannotMakeACapabilityOptionalOrRiskier(t *testing.T) {
	yes := true
	low, high := v1alpha1.CapabilityRiskLow, v1alpha1.CapabilityRiskHigh
	of := func(optional *bool, risk v1alpha1.CapabilityRisk) []v1alpha1.CapabilityReference {
		return []v1alpha1.CapabilityReference{{Name: "a", Optional: optional, MaxRisk: risk}}
	}
	for name, test := range map[string]struct {
		above, below []v1alpha1.CapabilityReference
		want         Use
	}{
		"demanded above": {of(nil, low), of(&yes, high), Use{MaxRisk: low}},
		"demanded below": {of(&yes, high), of(nil, low), Use{MaxRisk: low}},
		"optional":       {of(&yes, high), of(&yes, high), Use{MaxRisk: high, Optional: true}},
		"by default":     {of(nil, high), of(&yes, ""), Use{MaxRisk: v1alpha1.CapabilityRiskMedium}},
	} {
		test.want.ID = "object/a"
		if got := Merge(Merge(nil, test.above), test.below); len(got) != 1 || got[0] != test.want {
			t.Errorf("%s: merged %+v, want %+v", name, got, test.want)
		}
	}
}

func TestRisksAreOrdered(t *testing.T) {
	for risk, exceeds := range map[v1alpha1.CapabilityRisk][3]bool{
		"": {}, v1alpha1.CapabilityRiskLow: {}, v1alpha1.CapabilityRiskMedium: {true},
		v1alpha1.CapabilityRiskHigh: {true, true}, "Extreme": {true, true, true},
	} {
		for i, accepted := range risks {
			if Exceeds(risk, accepted) != exceeds[i] {
				t.Errorf("%q exceeds %q: %t", risk, accepted, !exceeds[i])
			}
		}
	}
}

func TestALargeConfigurationIsLeftOutOfCaches(t *testing.T) {
	fits := `{"x":"` + strings.Repeat("x", MaxConfigBytes-8) + `"}`
	refs := []v1alpha1.CapabilityReference{builtin("a", fits), builtin("b", fits+" "), builtin("c", "")}
	merged := Merge(nil, refs)
	LeaveOutConfigs(refs)
	kept := Merge(nil, refs)
	for i, large := range []bool{false, true, false} {
		if TooLarge(merged[i].Config) != large || TooLarge(kept[i].Config) != large {
			t.Errorf("%s is too large: %t, want %t", merged[i].ID, !large, large)
		}
	}
	if kept[0].Config != fits || len(kept[1].Config) > 64 {
		t.Errorf("the cache keeps %d and %d bytes", len(kept[0].Config), len(kept[1].Config))
	}
}

// graph has the dependencies of each capability as "a: b c"; "a!" is archived.
func graph(t *testing.T, lines ...string) Lookup {
	t.Helper()
	of, states := map[string][]Dependency{}, map[string]State{}
	for _, line := range lines {
		id, dependencies, _ := strings.Cut(line, ":")
		state := Available
		if name, archived := strings.CutSuffix(id, "!"); archived {
			id, state = name, Archived
		}
		states[id] = state
		for _, needed := range strings.Fields(dependencies) {
			of[id] = append(of[id], Dependency{ID: needed})
		}
	}
	return func(id string) (State, []Dependency) { return states[id], of[id] }
}

func uses(ids ...string) []Use {
	var all []Use
	for _, id := range ids {
		all = append(all, Use{ID: id})
	}
	return all
}

// Rules: CAP-03.
func TestDependenciesComeFirst(t *testing.T) {
	for name, test := range map[string]struct {
		selected []Use
		graph    []string
		want     Resolution
	}{
		"none": {},
		"without dependencies the order stays": {
			selected: uses("c", "a", "b"), graph: []string{"a", "b", "c"}, want: Resolution{Uses: uses("c", "a", "b")},
		},
		"depth first": {
			selected: uses("a"), graph: []string{"a: b c", "b: d", "c: d", "d"},
			want: Resolution{Uses: []Use{
				{ID: "d", NeededBy: "b"}, {ID: "b", NeededBy: "a"}, {ID: "c", NeededBy: "a"}, {ID: "a"},
			}},
		},
		"one that is named keeps its configuration": {
			selected: []Use{{ID: "a"}, {ID: "b", Config: `{"x":1}`}}, graph: []string{"a: b", "b"},
			want: Resolution{Uses: []Use{{ID: "b", Config: `{"x":1}`}, {ID: "a"}}},
		},
		"unknown ones": {
			selected: uses("a", "x"), graph: []string{"a: x y"},
			want: Resolution{Uses: uses("a"), Unknown: []Use{{ID: "x"}, {ID: "y", NeededBy: "a"}}},
		},
		"an archived one and an unknown one": {
			selected: uses("a", "b"), graph: []string{"a: x", "b!: c", "c"},
			want: Resolution{
				Uses: uses("a"), Unknown: []Use{{ID: "x", NeededBy: "a"}}, Archived: uses("b"),
			},
		},
		"optional ones are left out with what they need, or stay": {
			selected: []Use{{ID: "a", Optional: true}, {ID: "b", Optional: true}, {ID: "c", Optional: true}, {ID: "d"}},
			graph:    []string{"a: e f", "b: e", "c!", "d", "e"},
			want: Resolution{
				Uses:    []Use{{ID: "e", NeededBy: "b"}, {ID: "b", Optional: true}, {ID: "d"}},
				LeftOut: []Use{{ID: "a", Optional: true}, {ID: "c", Optional: true}},
			},
		},
		"an optional one that another one needs is not left out": {
			selected: []Use{{ID: "a"}, {ID: "x", Optional: true}}, graph: []string{"a: x"},
			want: Resolution{
				Uses: uses("a"), Unknown: []Use{{ID: "x", NeededBy: "a"}}, LeftOut: []Use{{ID: "x", Optional: true}},
			},
		},
		"a cycle": {
			selected: uses("z", "a"), graph: []string{"z", "a: b", "b: c", "c: a"},
			want: Resolution{
				Uses:  []Use{{ID: "z"}, {ID: "c", NeededBy: "b"}, {ID: "b", NeededBy: "a"}, {ID: "a"}},
				Cycle: []string{"a", "b", "c", "a"},
			},
		},
		"one that needs itself": {
			selected: uses("a"), graph: []string{"a: a"}, want: Resolution{Uses: uses("a"), Cycle: []string{"a", "a"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Resolve(test.selected, graph(t, test.graph...)); !reflect.DeepEqual(got, test.want) {
				t.Errorf("resolved %+v, want %+v", got, test.want)
			}
		})
	}
}

// Rules: CAP-03.
func TestTheNumberOfCapabilitiesIsBounded(t *testing.T) {
	var lines []string
	for i := range Max + 1 {
		lines = append(lines, fmt.Sprintf("c%d: c%d", i, i+1))
	}
	lines = append(lines, fmt.Sprintf("c%d", Max+1))
	if got := Resolve(uses("c0"), graph(t, lines...)); !got.TooMany || len(got.Uses) != Max {
		t.Errorf("resolved %d, too many: %t", len(got.Uses), got.TooMany)
	}
	if got := Resolve(uses("c2"), graph(t, lines...)); got.TooMany || len(got.Uses) != Max {
		t.Errorf("resolved %d, too many: %t", len(got.Uses), got.TooMany)
	}
	// Those that are left out were looked for all the same.
	var optional []Use
	for i := range Max + 1 {
		optional = append(optional, Use{ID: fmt.Sprintf("missing%d", i), Optional: true})
	}
	if got := Resolve(optional, graph(t, "a")); !got.TooMany || len(got.LeftOut) != 0 {
		t.Errorf("left out %d, too many: %t", len(got.LeftOut), got.TooMany)
	}
}
