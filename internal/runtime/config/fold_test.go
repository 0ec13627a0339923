package config

import (
	"math/rand"
	"reflect"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/capability"
)

func ref(name string) *v1alpha1.LocalReference {
	return &v1alpha1.LocalReference{Name: name}
}

func refs(names ...string) []v1alpha1.LocalReference {
	var list []v1alpha1.LocalReference
	for _, name := range names {
		list = append(list, v1alpha1.LocalReference{Name: name})
	}
	return list
}

func number(n int32) *int32 {
	return &n
}

// files are initial files, given as path=content.
func files(given ...string) []v1alpha1.InitialFile {
	var list []v1alpha1.InitialFile
	for _, file := range given {
		path, content, _ := strings.Cut(file, "=")
		list = append(list, v1alpha1.InitialFile{Path: path, Content: content})
	}
	return list
}

// Rules: CFG-03, CFG-04, VEC-18.
func TestFold(t *testing.T) {
	for name, test := range map[string]struct {
		layers []v1alpha1.ConfigLayer
		want   Effective
	}{
		"no layer gives the defaults": {
			want: Effective{MaxIterations: 500, ToolConcurrency: v1alpha1.ToolConcurrencyParallel},
		},
		"prompts are trimmed, empty ones dropped, the others joined by a blank line": {
			layers: []v1alpha1.ConfigLayer{
				{SystemPrompt: "  one\n"}, {SystemPrompt: " \n\t"}, {}, {SystemPrompt: "two\n\nthree "},
			},
			want: Effective{
				SystemPrompt: "one\n\ntwo\n\nthree", MaxIterations: 500, ToolConcurrency: v1alpha1.ToolConcurrencyParallel,
			},
		},
		"the last layer that sets it decides": {
			layers: []v1alpha1.ConfigLayer{
				{ModelRef: ref("big"), MaxIterations: number(3), ToolConcurrency: v1alpha1.ToolConcurrencySequential},
				{ModelRef: ref("small"), MaxIterations: number(7), ToolConcurrency: v1alpha1.ToolConcurrencyParallel},
			},
			want: Effective{ModelRef: "small", MaxIterations: 7, ToolConcurrency: v1alpha1.ToolConcurrencyParallel},
		},
		"an empty layer changes nothing": {
			layers: []v1alpha1.ConfigLayer{
				{
					ModelRef: ref("big"), MaxIterations: number(3), ToolConcurrency: v1alpha1.ToolConcurrencySequential,
					Tools: refs("a"),
				},
				{},
			},
			want: Effective{
				ModelRef: "big", MaxIterations: 3, ToolConcurrency: v1alpha1.ToolConcurrencySequential, Tools: []string{"a"},
			},
		},
		"tools add up, each once, where it first comes": {
			layers: []v1alpha1.ConfigLayer{{Tools: refs("b", "a")}, {Tools: refs("a", "c")}, {Tools: refs("b", "d")}},
			want: Effective{
				Tools: []string{"b", "a", "c", "d"}, MaxIterations: 500, ToolConcurrency: v1alpha1.ToolConcurrencyParallel,
			},
		},
		"an initial file replaces those that it contradicts": {
			layers: []v1alpha1.ConfigLayer{
				{InitialFiles: files("/a/b=1", "/a/c=2", "/d=3", "/ab=4")}, {InitialFiles: files("/a=5", "/d/e=6")},
			},
			want: Effective{
				InitialFiles: files("/ab=4", "/a=5", "/d/e=6"), MaxIterations: 500,
				ToolConcurrency: v1alpha1.ToolConcurrencyParallel,
			},
		},
		"an initial file replaces the one of the same path in its place": {
			layers: []v1alpha1.ConfigLayer{
				{InitialFiles: files("/workspace/a=1", "b=2")}, {InitialFiles: files("c=3", "//a/=4")},
			},
			want: Effective{
				InitialFiles: files("/a=4", "/b=2", "/c=3"), MaxIterations: 500,
				ToolConcurrency: v1alpha1.ToolConcurrencyParallel,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Fold(test.layers...); !reflect.DeepEqual(got, test.want) {
				t.Errorf("Fold = %+v, want %+v", got, test.want)
			}
		})
	}
}

func references(uses []capability.Use) []v1alpha1.CapabilityReference {
	refs := make([]v1alpha1.CapabilityReference, len(uses))
	for i, use := range uses {
		refs[i].Builtin = use.ID
		if use.Config != "" {
			refs[i].Config = &v1alpha1.JSON{Raw: []byte(use.Config)}
		}
	}
	return refs
}

func capabilities(names ...string) []v1alpha1.CapabilityReference {
	var named []v1alpha1.CapabilityReference
	for _, name := range names {
		named = append(named, v1alpha1.CapabilityReference{Builtin: name})
	}
	return named
}

// Layers that were merged before give the same as the layers themselves (CFG-01).
func TestFoldOfMergedLayersIsTheSame(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	pick := func(words ...string) string { return words[random.Intn(len(words))] }
	for range 2000 {
		layers := make([]v1alpha1.ConfigLayer, random.Intn(6))
		for i := range layers {
			layers[i].SystemPrompt = pick("", " ", "be brief", " be kind\n")
			layers[i].Tools = refs(strings.Fields(pick("", "a", "a b", "c a"))...)
			layers[i].Capabilities = capabilities(strings.Fields(pick("", "a", "a b", "c a"))...)
			for j := range layers[i].Capabilities {
				if config := pick("", `{"x":1}`, `{"x":2}`); config != "" {
					layers[i].Capabilities[j].Config = &v1alpha1.JSON{Raw: []byte(config)}
				}
			}
			layers[i].InitialFiles = files(strings.Fields(pick("", "a=1", "/b=2 a=3", "/workspace/b=4 c=5"))...)
			layers[i].ToolConcurrency = v1alpha1.ToolConcurrency(pick("", "Parallel", "Sequential"))
			if name := pick("", "m", "n"); name != "" {
				layers[i].ModelRef = ref(name)
			}
			if random.Intn(2) == 0 {
				layers[i].MaxIterations = number(int32(1 + random.Intn(4)))
			}
		}
		cut := random.Intn(len(layers) + 1)
		merged := Fold(layers[:cut]...)
		base := v1alpha1.ConfigLayer{
			SystemPrompt:    merged.SystemPrompt,
			Tools:           refs(merged.Tools...),
			Capabilities:    references(merged.Capabilities),
			InitialFiles:    merged.InitialFiles,
			MaxIterations:   &merged.MaxIterations,
			ToolConcurrency: merged.ToolConcurrency,
		}
		if merged.ModelRef != "" {
			base.ModelRef = ref(merged.ModelRef)
		}
		want, got := Fold(layers...), Fold(append([]v1alpha1.ConfigLayer{base}, layers[cut:]...)...)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("merged after %d of %+v: %+v, want %+v", cut, layers, got, want)
		}
	}
}
