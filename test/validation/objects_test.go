package validation_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	capstanv1alpha1 "github.com/capstan-dev/capstan/api/v1alpha1"
)

// parse reads a manifest. It panics on a mistake in the manifest, which is a mistake in this suite.
func parse(manifest string) *unstructured.Unstructured {
	raw, err := yaml.YAMLToJSON([]byte(manifest))
	if err != nil {
		panic(fmt.Sprintf("a manifest of the suite is not YAML: %v\n%s", err, manifest))
	}
	return decode(raw)
}

func decode(raw []byte) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(raw); err != nil {
		panic(fmt.Sprintf("a manifest of the suite is not an object: %v\n%s", err, raw))
	}
	return object
}

// smallest is an object of a kind with nothing but what is required.
func smallest(kind string) *unstructured.Unstructured {
	spec, known := smallestSpecs[kind]
	if !known {
		panic("there is no smallest object of kind " + kind)
	}
	return parse(fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: example, namespace: %s}\nspec: %s\n",
		capstanv1alpha1.GroupVersion, kind, dryRunNamespace, spec))
}

var smallestSpecs = map[string]string{
	"Agent":      `{}`,
	"Budget":     `{sessionSelector: {}, unit: Currency, currency: USD, limit: "5"}`,
	"Capability": `{}`,
	"Harness":    `{}`,
	"MCPServer":  `{url: "https://example.org/mcp"}`,
	"Model":      `{provider: Simulated, simulation: {}}`,
	"Schedule":   `{schedule: "0 9 * * *", sessionRef: {name: demo}, turn: {input: Hello}}`,
	"Session":    `{harnessRef: {name: base}}`,
	"Tool":       `{description: Counts words., client: {}}`,
	"ToolResult": `{turnRef: {name: demo-1}, callID: 1-0, result: done}`,
	"Turn":       `{sessionRef: {name: demo}, input: Hello}`,
}

// patched is the object with a JSON merge patch, written in YAML, put on top: null removes, lists are replaced.
func patched(object *unstructured.Unstructured, patch string) *unstructured.Unstructured {
	original, err := object.MarshalJSON()
	if err != nil {
		panic(err)
	}
	change, err := yaml.YAMLToJSON([]byte(patch))
	if err != nil {
		panic(fmt.Sprintf("a patch of the suite is not YAML: %v\n%s", err, patch))
	}
	merged, err := jsonpatch.MergePatch(original, change)
	if err != nil {
		panic(fmt.Sprintf("applying a patch of the suite: %v\n%s", err, patch))
	}
	return decode(merged)
}

// segments splits a schema path: spec.tools[].name is spec, tools, [], name.
func segments(path string) []string {
	path = strings.ReplaceAll(path, "[", ".[")
	return strings.Split(strings.TrimPrefix(path, "."), ".")
}

// lookup finds the value at a schema path, in the first item of every list and the first entry of every map.
func lookup(value any, path []string) (any, bool) {
	if len(path) == 0 {
		return value, true
	}
	switch container := value.(type) {
	case map[string]any:
		key := path[0]
		if key == "[*]" {
			if len(container) == 0 {
				return nil, false
			}
			key = slices.Min(slices.Collect(maps.Keys(container)))
		}
		child, found := container[key]
		if !found {
			return nil, false
		}
		return lookup(child, path[1:])
	case []any:
		if path[0] != "[]" || len(container) == 0 {
			return nil, false
		}
		return lookup(container[0], path[1:])
	default:
		return nil, false
	}
}

// replace puts a value where lookup found one. A nil value removes what is there.
func replace(object *unstructured.Unstructured, path []string, value any) {
	last := len(path) - 1
	parent, found := lookup(object.Object, path[:last])
	if !found {
		panic("there is nothing at " + strings.Join(path[:last], "."))
	}
	switch container := parent.(type) {
	case map[string]any:
		key := path[last]
		if key == "[*]" {
			key = slices.Min(slices.Collect(maps.Keys(container)))
		}
		if value == nil {
			delete(container, key)
			return
		}
		container[key] = value
	case []any:
		container[0] = value
	default:
		panic(fmt.Sprintf("%T at %s has no parts", parent, strings.Join(path[:last], ".")))
	}
}
