package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/yannh/kubeconform/pkg/validator"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/loader"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

type object = map[string]any

const chartFolder = "../../charts/capstan"

// sourceImages are the images of config, which the chart of the source tree does not name.
func sourceImages() object {
	return object{
		"registry": "capstan.dev", "manager": object{"tag": "dev"}, "launcher": object{"tag": "dev"},
	}
}

// rendered returns the objects of the chart, by kind, namespace and name.
func rendered(t *testing.T, namespace string, values object) (map[string]object, error) {
	t.Helper()
	chart, err := loader.Load(chartFolder)
	if err != nil {
		t.Fatal(err)
	}
	install := action.NewInstall(&action.Configuration{})
	install.DryRunStrategy, install.ReleaseName, install.Namespace = action.DryRunClient, "capstan", namespace
	install.KubeVersion = &common.KubeVersion{Version: "v1.37.0", Major: "1", Minor: "37"}
	result, err := install.Run(chart, values)
	if err != nil {
		return nil, err
	}
	made := result.(*releasev1.Release)
	manifest := made.Manifest
	for _, hook := range made.Hooks {
		manifest += "\n---\n" + hook.Manifest
	}
	return parsed(t, manifest), nil
}

func parsed(t *testing.T, manifest string) map[string]object {
	t.Helper()
	objects := map[string]object{}
	for document := range strings.SplitSeq("\n"+manifest, "\n---") {
		var o object
		if err := yaml.UnmarshalStrict([]byte(document), &o); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if len(o) == 0 {
			continue
		}
		metadata := o["metadata"].(object)
		key := fmt.Sprintf("%v/%v/%v", o["kind"], metadata["namespace"], metadata["name"])
		if objects[key] != nil {
			t.Errorf("%s appears twice", key)
		}
		objects[key] = o
	}
	return objects
}

func mustRender(t *testing.T, namespace string, values object) map[string]object {
	t.Helper()
	objects, err := rendered(t, namespace, values)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func kustomized(t *testing.T, folder string) string {
	t.Helper()
	return built(t, filepath.Join("../../config", folder))
}

func built(t *testing.T, folder string) string {
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

// expectSame compares objects one by one. The chart marks definitions as kept, which is of use to Helm alone.
func expectSame(t *testing.T, got, want map[string]object) {
	t.Helper()
	for _, key := range slices.Sorted(maps.Keys(want)) {
		o := got[key]
		if o == nil {
			t.Errorf("the chart lacks %s", key)
			continue
		}
		if strings.HasPrefix(key, "CustomResourceDefinition/") {
			annotations := o["metadata"].(object)["annotations"].(object)
			if annotations["helm.sh/resource-policy"] != "keep" {
				t.Errorf("%s is not kept when the release is uninstalled", key)
			}
			delete(annotations, "helm.sh/resource-policy")
		}
		if !reflect.DeepEqual(o, want[key]) {
			differing, _ := yaml.Marshal(o)
			t.Errorf("%s differs from config; the chart has\n%.3000s", key, differing)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(got)) {
		if want[key] == nil {
			t.Errorf("only the chart has %s", key)
		}
	}
}

func TestTheChartHasTheObjectsOfTheInstall(t *testing.T) {
	install, err := os.ReadFile("../../dist/install.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got := mustRender(t, "capstan-system", object{
		"image": sourceImages(), "namespace": object{"create": true},
	})
	if len(got) < 80 {
		t.Errorf("the chart has %d objects only", len(got))
	}
	expectSame(t, got, parsed(t, string(install)))
}

func TestTheChartForSomeNamespacesHasTheObjectsOfConfigNamespaced(t *testing.T) {
	expectSame(t, mustRender(t, "capstan-system", object{
		"image": sourceImages(), "namespace": object{"create": true}, "watchNamespaces": []any{"team-a", "team-b"},
	}), parsed(t, kustomized(t, "namespaced")))
}

func TestTheChartWithFourEyesAddsItsPolicy(t *testing.T) {
	want := parsed(t, kustomized(t, "default")+"\n---\n"+kustomized(t, "four-eyes"))
	delete(want, "Namespace/<nil>/capstan-system")
	expectSame(t, mustRender(t, "capstan-system", object{
		"image": sourceImages(), "policies": object{"fourEyes": true},
	}), want)
}

func TestAnotherNamespaceReplacesOursEverywhere(t *testing.T) {
	for key, o := range mustRender(t, "agents-0", object{"image": sourceImages()}) {
		content, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(content), "capstan-system") {
			t.Errorf("%s still names capstan-system", key)
		}
	}
}

func TestTheDeploymentFollowsTheValues(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0", 64)
	mounted := []any{object{"name": "egress", "mountPath": "/etc/capstan"}}
	volumes := []any{object{"name": "egress", "configMap": object{"name": "egress"}}}
	objects := mustRender(t, "capstan-system", object{
		"replicas": 2,
		"image": object{
			"registry":    "registry.example.org/capstan",
			"pullSecrets": []any{object{"name": "pull"}},
			"manager":     object{"digest": digest},
			"launcher":    object{"digest": digest},
		},
		"manager": object{
			"extraArgs":         []any{"--zap-log-level=debug"},
			"extraVolumes":      volumes,
			"extraVolumeMounts": mounted,
			"extraEnv":          []any{object{"name": "HTTPS_PROXY", "value": "http://proxy"}},
			"goMemLimit":        "700MiB",
		},
		"resources":     object{"limits": object{"memory": "1Gi"}},
		"priorityClass": object{"create": false, "name": "system-cluster-critical"},
		"nodeSelector":  object{"pool": "system"},
		"tolerations":   []any{object{"operator": "Exists"}},
		"podLabels":     object{"team": "agents"},
	})
	if objects["PriorityClass/<nil>/system-cluster-critical"] != nil {
		t.Error("the chart creates a class that it should not")
	}
	content, err := yaml.Marshal(objects["Deployment/capstan-system/capstan-manager"])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"replicas: 2", "image: registry.example.org/capstan/manager@" + digest,
		"- --launcher-image=registry.example.org/capstan/launcher@" + digest, "- --zap-log-level=debug",
		"priorityClassName: system-cluster-critical", "pool: system", "kubernetes.io/os: linux", "operator: Exists",
		"team: agents", "mountPath: /etc/capstan", "imagePullSecrets:", "memory: 1Gi", "value: 700MiB", "name: HTTPS_PROXY",
	} {
		if !strings.Contains(string(content), want) {
			t.Errorf("the Deployment lacks %q:\n%s", want, content)
		}
	}
}

func TestTheChartRefusesWrongValues(t *testing.T) {
	for name, test := range map[string]struct {
		values object
		names  string
	}{
		"no image":               {object{}, "make release"},
		"a value with a typo":    {object{"image": sourceImages(), "replica": 2}, "replica"},
		"one below":              {object{"image": sourceImages(), "crds": object{"kept": true}}, "kept"},
		"a wrong type":           {object{"image": sourceImages(), "replicas": "two"}, "replicas"},
		"a digest that is a tag": {object{"image": object{"manager": object{"digest": "v1"}}}, "digest"},
		"an egress rule with a typo": {
			egressRules(object{"namespaces": []any{"a"}, "services": []any{}, "plainHttp": "Allowed"}), "plainHttp",
		},
		"an egress rule without a destination": {egressRules(object{"namespaces": []any{"a"}}), "cidrs"},
		"an egress rule without namespaces":    {egressRules(object{"cidrs": []any{}}), "namespaces"},
		"a range without ports": {
			egressRules(object{"namespaces": []any{"*"}, "cidrs": []any{object{"cidr": "10.0.0.0/8"}}}), "ports",
		},
		"a range that cannot be parsed": {
			object{"image": sourceImages(), "egress": object{"allowCIDRs": []any{"models.svc"}}}, "allowCIDRs",
		},
		"a password in the URL of a database": {
			database(object{"connection": "postgres://capstan:secret@db.example/capstan"}), "connection",
		},
		"a password among the settings of a database": {
			database(object{"connection": "postgres://db.example/capstan?a=b&password=secret"}), "connection",
		},
		"a database without an address": {database(object{"connection": ""}), "store.postgres.connection"},
		"no duration":                   {database(object{"statementTimeout": "10"}), "statementTimeout"},
		"a store that does not exist": {
			object{"image": sourceImages(), "store": object{"type": "Postgres"}}, "type",
		},
		"not a namespace": {object{"image": sourceImages(), "watchNamespaces": []any{"Team A"}}, "watchNamespaces"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := rendered(t, "capstan-system", test.values); err == nil || !strings.Contains(err.Error(), test.names) {
				t.Errorf("error = %v, want one that names %s", err, test.names)
			}
		})
	}
}

func TestHelmLintFindsNothing(t *testing.T) {
	lint := action.NewLint()
	lint.Strict = true
	result := lint.Run([]string{chartFolder}, object{"image": sourceImages()})
	if len(result.Errors) > 0 {
		t.Error(result.Errors)
	}
	for _, message := range result.Messages {
		if !strings.Contains(message.Err.Error(), "icon is recommended") {
			t.Errorf("%s: %v", message.Path, message.Err)
		}
	}
}

func TestKubeconformAcceptsTheChart(t *testing.T) {
	validate, err := validator.New([]string{filepath.Join(kubernetesSchemas(t), "{{.ResourceKind}}.json")},
		validator.Opts{Strict: true, SkipKinds: map[string]struct{}{"ServiceMonitor": {}, "PrometheusRule": {}}})
	if err != nil {
		t.Fatal(err)
	}
	objects := mustRender(t, "capstan-system", object{
		"image": sourceImages(), "namespace": object{"create": true}, "policies": object{"fourEyes": true},
		"serviceMonitor": object{"enabled": true, "prometheus": object{"serviceAccount": "prometheus"}},
		"prometheusRule": object{"enabled": true}, "dashboards": object{"enabled": true},
		"egress":      object{"rules": someEgressRules()},
		"store":       database(object{})["store"],
		"tolerations": []any{object{"operator": "Exists"}},
	})
	valid := 0
	for key, o := range objects {
		content, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		reader := io.NopCloser(strings.NewReader(string(content)))
		for _, result := range validate.ValidateWithContext(context.Background(), key, reader) {
			switch {
			case result.Status == validator.Valid:
				valid++
			case result.Status != validator.Skipped:
				t.Errorf("%s: %v %v", key, result.Err, result.ValidationErrors)
			}
		}
	}
	if valid != len(objects)-2 {
		t.Errorf("%d of %d objects are valid, want all but those of the Prometheus Operator", valid, len(objects))
	}
	deployment := objects["Deployment/capstan-system/capstan-manager"]
	deployment["spec"].(object)["replica"] = 1
	content, err := yaml.Marshal(deployment)
	if err != nil {
		t.Fatal(err)
	}
	results := validate.ValidateWithContext(
		context.Background(),
		"wrong",
		io.NopCloser(strings.NewReader(string(content))),
	)
	if len(results) != 1 || results[0].Status != validator.Invalid {
		t.Errorf("a Deployment with an unknown field: %+v", results)
	}
}

// kubernetesSchemas writes the schemas of the built-in kinds, from the OpenAPI documents of the Kubernetes that
// hack/cluster builds, as kubeconform reads them. Unknown fields are errors.
func kubernetesSchemas(t *testing.T) string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "-C", "../cluster", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes")
	module, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	documents, err := filepath.Glob(
		filepath.Join(strings.TrimSpace(string(module)), "api/openapi-spec/v3/*_v1_openapi.json"),
	)
	if err != nil || len(documents) == 0 {
		t.Fatalf("no OpenAPI documents of Kubernetes: %v", err)
	}
	folder := t.TempDir()
	for _, file := range documents {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var document struct {
			Components struct{ Schemas map[string]object }
		}
		if err := json.Unmarshal(content, &document); err != nil {
			t.Fatal(err)
		}
		for name, schema := range document.Components.Schemas {
			if _, open := schema["additionalProperties"]; schema["properties"] != nil && !open {
				schema["additionalProperties"] = false
			}
			if !strings.Contains(name, "JSONSchemaProps") {
				continue
			}
			delete(schema, "additionalProperties")
		}
		for name, schema := range document.Components.Schemas {
			kinds, _ := schema["x-kubernetes-group-version-kind"].([]any)
			if len(kinds) != 1 {
				continue
			}
			one, err := json.Marshal(object{
				"$ref": "#/components/schemas/" + name, "components": object{"schemas": document.Components.Schemas},
			})
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(folder, strings.ToLower(kinds[0].(object)["kind"].(string))+".json")
			if err := os.WriteFile(path, one, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return folder
}

// What kube-linter checks of workloads and roles by default, as far as it applies.
func TestTheManagerIsConfined(t *testing.T) {
	objects := mustRender(t, "capstan-system", object{"image": sourceImages()})
	content, err := yaml.Marshal(objects["Deployment/capstan-system/capstan-manager"])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"runAsNonRoot: true", "readOnlyRootFilesystem: true", "allowPrivilegeEscalation: false", "- ALL",
		"type: RuntimeDefault", "livenessProbe:", "readinessProbe:", "requests:", "limits:",
		"serviceAccountName: capstan-manager", "priorityClassName: capstan-manager",
	} {
		if !strings.Contains(string(content), want) {
			t.Errorf("the Deployment lacks %q", want)
		}
	}
	for _, refused := range []string{"hostPath", "hostNetwork", "hostPID", "hostIPC", "privileged: true", ":latest"} {
		if strings.Contains(string(content), refused) {
			t.Errorf("the Deployment has %q", refused)
		}
	}
	for key, o := range objects {
		if kind := o["kind"]; kind != "ClusterRole" && kind != "Role" {
			continue
		}
		rules, _ := o["rules"].([]any)
		for _, rule := range rules {
			for _, part := range []string{"verbs", "resources", "apiGroups"} {
				if values, _ := rule.(object)[part].([]any); slices.Contains(values, any("*")) {
					t.Errorf("%s has a wildcard in %s", key, part)
				}
			}
		}
	}
}
