package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestExpressionsStandInTheirPlaces(t *testing.T) {
	some := object{"kind": "Some", "metadata": object{"name": "some"}, "list": []any{"first"}, "map": object{"a": "b"}}
	rendered, err := template{objects: []object{some}, change: func(o object, e *expressions) {
		o["value"] = e.scalar("{{ .Values.value }}")
		o["list"] = e.item(o["list"].([]any), valuesOf("more"))
		e.block(o["map"].(object), fieldOf("below", "below"))
	}}.render()
	if err != nil {
		t.Fatal(err)
	}
	want := generatedNotice + `---
kind: Some
list:
- first
{{- with .Values.more }}
{{- toYaml . | nindent 0 }}
{{- end }}
map:
  a: b
{{- with .Values.below }}
  below:
{{- toYaml . | nindent 2 }}
{{- end }}
metadata:
  name: some
value: {{ .Values.value }}
`
	if string(rendered) != want {
		t.Errorf("rendered\n%s\nwant\n%s", rendered, want)
	}
	if some["value"] != nil || len(some["list"].([]any)) != 1 {
		t.Errorf("the object of config was changed: %v", some)
	}
}

func TestBracesInTextsAreNoActions(t *testing.T) {
	if got := escaped("says {{input}}"); got != "says {{`{{`}}input}}" {
		t.Errorf("escaped = %q", got)
	}
}

func TestTheNamespaceIsThatOfTheRelease(t *testing.T) {
	got := inReleaseNamespace("namespace: capstan-system\n- capstan-system\nuser: 'a:capstan-system:b'\n")
	want := "namespace: {{ $.Release.Namespace | quote }}\n- {{ $.Release.Namespace | quote }}\n" +
		"user: 'a:{{ $.Release.Namespace }}:b'\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// usedValue finds the values that a template reads.
var usedValue = regexp.MustCompile(`\.Values\.([A-Za-z.]+)`)

func TestEveryValueIsUsed(t *testing.T) {
	objects, err := kustomized(filepath.Join(root, "config", "default"))
	if err != nil {
		t.Fatal(err)
	}
	observability, err := component(filepath.Join(root, "config", "observability"))
	if err != nil {
		t.Fatal(err)
	}
	table, err := chartValues(objects, observability)
	if err != nil {
		t.Fatal(err)
	}
	var used []string
	files, err := filepath.Glob(filepath.Join(root, chartFolder, "templates", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range usedValue.FindAllStringSubmatch(string(content), -1) {
			used = append(used, strings.TrimSuffix(match[1], "."))
		}
	}
	for _, v := range table {
		if _, isGroup := v.byDefault.(group); isGroup {
			continue
		}
		if v.description == "" || len(v.description) > 200 {
			t.Errorf("%s: a description of 1 to 200 characters is needed, it has %d", v.path, len(v.description))
		}
		if !slices.ContainsFunc(used, func(u string) bool { return v.path == u || strings.HasPrefix(v.path, u+".") }) {
			t.Errorf("no template reads %s", v.path)
		}
	}
	for _, u := range used {
		if !slices.ContainsFunc(table, func(v chartValue) bool { return v.path == u }) {
			t.Errorf("a template reads %s, which does not exist", u)
		}
	}
}

// TestEachValueHasItsOwnDescription finds values that share one schema, of which each would have the text of the last.
func TestEachValueHasItsOwnDescription(t *testing.T) {
	values := slices.Concat(imageValues(object{}), egressValues(), storeValues(), objectValues())
	if _, err := valuesSchema(values); err != nil {
		t.Fatal(err)
	}
	for _, v := range values {
		if v.schema != nil && v.schema["description"] != v.description {
			t.Errorf("the schema of %s describes it as %q, want %q", v.path, v.schema["description"], v.description)
		}
	}
}
