package main

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yannh/kubeconform/pkg/validator"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// root is the repository, as seen from this folder.
const root = "../.."

func conform(t *testing.T) func(manifest string) []validator.Result {
	t.Helper()
	v, err := validator.New(
		[]string{filepath.Join(root, schemaFolder, "{{.ResourceKind}}_{{.ResourceAPIVersion}}.json")},
		validator.Opts{Strict: true},
	)
	if err != nil {
		t.Fatal(err)
	}
	return func(manifest string) []validator.Result {
		return v.ValidateWithContext(context.Background(), "manifest.yaml", io.NopCloser(strings.NewReader(manifest)))
	}
}

func TestEveryGeneratedFileIsFresh(t *testing.T) {
	files, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if got, err := os.ReadFile(filepath.Join(root, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is stale (%v): run make dist", name, err)
		}
	}
	schemas, err := filepath.Glob(filepath.Join(root, schemaFolder, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range schemas {
		if _, made := files[schemaFolder+"/"+filepath.Base(path)]; !made {
			t.Errorf("%s belongs to no kind: run make dist", path)
		}
	}
}

func TestRunWritesWhatIsMissingAndTakesAwayWhatIsStale(t *testing.T) {
	copied := t.TempDir()
	if err := os.CopyFS(filepath.Join(copied, "config"), os.DirFS(filepath.Join(root, "config"))); err != nil {
		t.Fatal(err)
	}
	stale := filepath.Join(copied, schemaFolder, "gone_v1.json")
	staleTemplate := filepath.Join(copied, chartFolder, "templates", "gone.yaml")
	written := filepath.Join(copied, chartFolder, "templates", "by_hand.yaml")
	for path, content := range map[string]string{stale: "{}", staleTemplate: generatedNotice, written: "{{- if false }}"} {
		if _, err := replace(path, []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	var output strings.Builder
	if err := run(copied, &output); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(stale); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", stale, err)
	}
	if _, err := os.Stat(staleTemplate); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", staleTemplate, err)
	}
	if _, err := os.Stat(written); err != nil {
		t.Errorf("a template that is written by hand is gone: %v", err)
	}
	for _, want := range []string{
		"dist/install.yaml\n", "dist/schemas/turn_v1alpha1.json\n", "charts/capstan/templates/policies.yaml\n",
		"removed dist/schemas/gone_v1.json\n",
	} {
		if !strings.Contains(output.String(), want) {
			t.Errorf("printed %q, not %q", output.String(), want)
		}
	}
	output.Reset()
	if err := run(copied, &output); err != nil || output.String() != "" {
		t.Errorf("the second run printed %q, %v", output.String(), err)
	}
}

func TestTheNamespaceComesBeforeWhatIsInIt(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root, "dist", "install.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	own, first := bytes.Index(content, []byte("\nkind: Namespace\n")), bytes.Index(content, []byte("\n  namespace: "))
	if own < 0 || first < own {
		t.Errorf("the namespace is at byte %d, the first object in it at %d", own, first)
	}
}

func TestKubeconformAcceptsTheSamples(t *testing.T) {
	validate := conform(t)
	seen := map[string]int{}
	err := filepath.WalkDir(
		filepath.Join(root, "config", "samples"),
		func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || entry.Name() == "kustomization.yaml" {
				return err
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, result := range validate(string(content)) {
				signature, err := result.Resource.Signature()
				if result.Status != validator.Valid || err != nil {
					t.Errorf("%s: %v %v %v", path, result.Status, result.Err, result.ValidationErrors)
					continue
				}
				seen[signature.Kind]++
			}
			return nil
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"Harness", "Agent", "Session", "Turn", "Model", "Tool", "ToolResult"} {
		if seen[kind] == 0 {
			t.Errorf("no sample of a %s was validated", kind)
		}
	}
}

func TestKubeconformRefusesWhatTheAPIServerWould(t *testing.T) {
	const header = "apiVersion: capstan.dev/v1alpha1\nmetadata: {name: some}\n"
	for name, test := range map[string]struct {
		manifest string
		names    string
	}{
		"a field that does not exist": {header + "kind: Harness\nspec: {systemPromt: Hello}", "systemPromt"},
		"one deep inside": {
			header + "kind: Tool\nspec: {description: d, job: {image: i, command: [c], privileged: true}}", "privileged",
		},
		"one beside spec":             {header + "kind: Harness\nspec: {}\nsepc: {}", "sepc"},
		"a required field is missing": {header + "kind: Turn\nspec: {input: Hello}", "sessionRef"},
		"no name for the Session":     {header + "kind: Turn\nspec: {sessionRef: {}, input: Hello}", "name"},
		"a value that is not in a list": {
			header + "kind: Tool\nspec: {description: d, sideEffect: Sometimes, client: {}}", "sideEffect",
		},
		"a value of the wrong type": {header + "kind: Turn\nspec: {sessionRef: {name: demo}, input: 7}", "input"},
		"a pattern that is not met": {
			header + "kind: ToolResult\nspec: {turnRef: {name: demo-1}, callID: first, result: r}", "callID",
		},
		"too long a text": {
			header + "kind: Turn\nspec: {sessionRef: {name: demo}, input: " + strings.Repeat("x", 65537) + "}", "input",
		},
	} {
		t.Run(name, func(t *testing.T) {
			results := conform(t)(test.manifest)
			if len(results) != 1 || results[0].Status != validator.Invalid ||
				!strings.Contains(results[0].Err.Error(), test.names) {
				t.Errorf("results = %+v, want one Invalid that names %s", results, test.names)
			}
		})
	}
}

func TestTheKustomizationOfTheDocumentPutsOtherImagesIn(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "gitops.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(page), "```yaml kustomize\n")
	block, _, closed := strings.Cut(block, "```")
	if !found || !closed {
		t.Fatal("docs/gitops.md shows no kustomization")
	}
	folder := t.TempDir()
	manifest, err := os.ReadFile(filepath.Join(root, "dist", "install.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"install.yaml": manifest, "kustomization.yaml": []byte(block)} {
		if _, err := replace(filepath.Join(folder, name), content); err != nil {
			t.Fatal(err)
		}
	}
	got := build(t, folder)
	for _, want := range []string{
		"image: registry.example.org/capstan/manager:v1.2.3",
		"- --launcher-image=registry.example.org/capstan/launcher:v1.2.3",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the manifest lacks %q", want)
		}
	}
	if strings.Contains(got, "capstan.dev/manager:") || strings.Contains(got, "capstan.dev/launcher:") {
		t.Error("the manifest still has images of ours")
	}
}

func TestTheComponentAddsTheHealthChecksToArgoCD(t *testing.T) {
	folder := t.TempDir()
	if err := os.CopyFS(filepath.Join(folder, "argocd"), os.DirFS(filepath.Join(root, "config", "argocd"))); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n" +
			"namespace: argocd\nresources: [cm.yaml]\ncomponents: [argocd]\n",
		"cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: argocd-cm}\n" +
			"data: {url: https://argocd.example.org}\n",
	} {
		if _, err := replace(filepath.Join(folder, name), []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	got := build(t, folder)
	for _, want := range []string{
		"url: https://argocd.example.org", "resource.customizations.health.capstan.dev_Turn: |",
		"resource.customizations.health.capstan.dev_Session: |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the ConfigMap lacks %q", want)
		}
	}
}

// build returns the output of kustomize for a folder.
func build(t *testing.T, folder string) string {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := resources.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return string(manifest)
}

func TestJSONSchemaSpeaksThePlainDialect(t *testing.T) {
	text := map[string]any{"type": "string", "nullable": true, "x-kubernetes-validations": []any{}}
	got := jsonSchema(map[string]any{"type": "object", "properties": map[string]any{
		"nullable": text,
		"free": map[string]any{
			"type":                                 "object",
			"x-kubernetes-preserve-unknown-fields": true,
			"properties":                           map[string]any{"a": text},
		},
		"map": map[string]any{"type": "object", "additionalProperties": text},
	}}, "Some", "capstan.dev/v1")
	properties := got["properties"].(map[string]any)
	if kinds := properties["nullable"].(map[string]any); len(kinds) != 1 || len(kinds["type"].([]any)) != 2 {
		t.Errorf("a field named nullable became %v", kinds)
	}
	if _, closed := properties["free"].(map[string]any)["additionalProperties"]; closed {
		t.Error("an object that keeps unknown fields refuses them")
	}
	if values := properties["map"].(map[string]any)["additionalProperties"].(map[string]any); values["nullable"] != nil {
		t.Errorf("the values of a map became %v", values)
	}
	if got["additionalProperties"] != false {
		t.Error("unknown fields beside spec are not refused")
	}
}
