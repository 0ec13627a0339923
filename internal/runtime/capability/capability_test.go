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

// Rules: CFG-03.
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

// graph has the dependencies of each capability as "a: b c".
func graph(t *testing.T, lines ...string) func(string) ([]string, bool) {
	t.Helper()
	of := map[string][]string{}
	for _, line := range lines {
		id, dependencies, _ := strings.Cut(line, ":")
		of[id] = strings.Fields(dependencies)
	}
	return func(id string) ([]string, bool) {
		dependencies, known := of[id]
		return dependencies, known
	}
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
}
