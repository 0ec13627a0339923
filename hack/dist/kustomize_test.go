package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// overlay is an environment over base, as a user writes it.
const overlay = `apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namePrefix: staging-
resources: [base.yaml]
configurations: [capstan.yaml]
secretGenerator:
- name: key
  literals: [api-key=any]
images:
- name: registry.example.org/pay
  newTag: v2
`

// base names each kind of thing that may be named.
const base = `apiVersion: capstan.dev/v1alpha1
kind: Model
metadata: {name: main}
spec:
  provider: OpenAI
  model: some-model
  secretKeyRef: {name: key, key: api-key}
  fallbacks: [{name: spare}]
---
apiVersion: capstan.dev/v1alpha1
kind: Model
metadata: {name: spare}
spec:
  provider: Simulated
  simulation: {toolCalls: {sequence: [{calls: [{name: pay}]}, {}]}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: payer}
---
apiVersion: capstan.dev/v1alpha1
kind: Tool
metadata: {name: pay}
spec:
  description: Pays.
  job:
    image: registry.example.org/pay:v1
    command: [/pay]
    serviceAccountName: payer
    env: [{name: KEY, secretKeyRef: {name: key, key: api-key}}]
    imagePullSecrets: [{name: key}]
---
apiVersion: capstan.dev/v1alpha1
kind: MCPServer
metadata: {name: search}
spec: {url: "https://search.example.org/mcp", headers: [{name: Authorization, secretKeyRef: {name: key, key: api-key}}]}
---
apiVersion: capstan.dev/v1alpha1
kind: Harness
metadata: {name: base}
spec: {modelRef: {name: main}}
---
apiVersion: capstan.dev/v1alpha1
kind: Harness
metadata: {name: careful}
spec: {parentRef: {name: base}, tools: [{name: pay}],
  networkAccess: {blocked: [example.org], exemptTools: [{name: pay}]}}
---
apiVersion: capstan.dev/v1alpha1
kind: Agent
metadata: {name: helper}
spec: {modelRef: {name: spare}, mcpServers: [{name: search}], capabilities: [{name: notes}]}
---
apiVersion: capstan.dev/v1alpha1
kind: Capability
metadata: {name: notes}
spec:
  tools: [{name: pay}]
  mcpServers: [{name: search}]
  dependencies: [{name: paper}]
  hooks:
  - {name: audit, event: TurnEnd,
     webhook: {url: "https://example.org", headers: [{name: A, secretKeyRef: {name: key, key: api-key}}]}}
---
apiVersion: capstan.dev/v1alpha1
kind: Capability
metadata: {name: paper}
---
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: demo}
spec: {harnessRef: {name: careful}, agentRef: {name: helper}}
---
apiVersion: capstan.dev/v1alpha1
kind: Turn
metadata: {name: demo-1}
spec: {sessionRef: {name: demo}, input: Hello, controls: {modelRef: {name: main}}}
---
apiVersion: capstan.dev/v1alpha1
kind: ToolResult
metadata: {name: yes}
spec: {turnRef: {name: demo-1}, callID: 1-0, result: done}
`

func TestAnOverlayRenamesWhatIsNamed(t *testing.T) {
	configuration, err := os.ReadFile(filepath.Join(root, "config", "kustomize", "capstan.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for name, content := range map[string]string{
		"kustomization.yaml": overlay, "base.yaml": base, "capstan.yaml": string(configuration),
	} {
		if _, err := replace(filepath.Join(folder, name), []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	got := build(t, folder)
	for name, times := range map[string]int{
		"name: staging-main":                 3,
		"name: staging-spare":                3,
		"name: staging-pay\n":                5,
		"name: staging-base":                 2,
		"name: staging-careful":              2,
		"name: staging-helper":               2,
		"name: staging-demo\n":               2,
		"name: staging-demo-1":               2,
		"serviceAccountName: staging-payer":  1,
		"name: staging-search":               3,
		"name: staging-notes":                2,
		"name: staging-paper":                2,
		"name: staging-key-":                 6,
		"image: registry.example.org/pay:v2": 1,
	} {
		if count := strings.Count(got, name); count != times {
			t.Errorf("%q is there %d times, want %d", name, count, times)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
}

// A field that is added to the API and names an object must be added to the configuration.
func TestTheConfigurationKnowsEveryReference(t *testing.T) {
	known := map[string]bool{}
	var configuration struct {
		NameReference []struct {
			FieldSpecs []struct{ Kind, Path string }
		}
	}
	readYAML(t, filepath.Join(root, "config", "kustomize", "capstan.yaml"), &configuration)
	for _, reference := range configuration.NameReference {
		for _, field := range reference.FieldSpecs {
			known[field.Kind+" "+field.Path] = true
		}
	}
	files, err := filepath.Glob(filepath.Join(root, "config", "crd", "bases", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	found := 0
	for _, file := range files {
		var definition struct {
			Spec struct {
				Names    struct{ Kind string }
				Versions []struct {
					Schema struct {
						OpenAPIV3Schema struct{ Properties map[string]property }
					}
				}
			}
		}
		readYAML(t, file, &definition)
		// The manager alone writes entries, LeasedResources and Records.
		if kind := definition.Spec.Names.Kind; kind == "JournalEntry" || kind == "LeasedResource" || kind == "Record" {
			continue
		}
		for _, version := range definition.Spec.Versions {
			for _, path := range version.Schema.OpenAPIV3Schema.Properties["spec"].references("spec") {
				found++
				if !known[definition.Spec.Names.Kind+" "+path] {
					t.Errorf("config/kustomize/capstan.yaml does not know %s of %s", path, definition.Spec.Names.Kind)
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("the definitions have %d references only", found)
	}
}

// property is a field of a definition.
type property struct {
	Properties map[string]property
	Items      *property
}

// references are the places of all names of objects in a field: of a member that is called a reference, or of a list of
// nothing but names.
func (p property) references(path string) []string {
	var found []string
	for _, name := range slices.Sorted(maps.Keys(p.Properties)) {
		member, at := p.Properties[name], path+"/"+name
		if member.Items != nil {
			if _, named := member.Items.Properties["name"]; named && len(member.Items.Properties) == 1 {
				found = append(found, at+"/name")
				continue
			}
			member = *member.Items
		}
		if _, named := member.Properties["name"]; named && strings.HasSuffix(name, "Ref") {
			found = append(found, at+"/name")
			continue
		}
		if name == "serviceAccountName" {
			found = append(found, at)
		}
		found = append(found, member.references(at)...)
	}
	return found
}

func readYAML(t *testing.T, file string, into any) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(content, into)
	}
	if err != nil {
		t.Fatal(file, err)
	}
}
