package main

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestTheChartHasTheObjectsOfObservability(t *testing.T) {
	folder := t.TempDir()
	config, err := filepath.Abs("../../config")
	if err != nil {
		t.Fatal(err)
	}
	if config, err = filepath.Rel(folder, config); err != nil {
		t.Fatal(err)
	}
	kustomization := "resources: [" + config + "/default]\ncomponents: [" + config + "/observability]\n"
	if err := os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(kustomization), 0o644); err != nil {
		t.Fatal(err)
	}
	expectSame(t, mustRender(t, "capstan-system", object{
		"image": sourceImages(), "namespace": object{"create": true}, "serviceMonitor": object{"enabled": true},
		"prometheusRule": object{"enabled": true}, "dashboards": object{"enabled": true},
	}), parsed(t, built(t, folder)))
}

func TestLabelsSelectWhatTheChartHasForMonitoring(t *testing.T) {
	objects := mustRender(t, "capstan-system", object{
		"image": sourceImages(),
		"serviceMonitor": object{
			"enabled": true, "labels": object{"release": "a"}, "interval": "1m",
			"prometheus": object{"serviceAccount": "prometheus", "namespace": "metrics"},
		},
		"prometheusRule": object{"enabled": true, "labels": object{"release": "b"}},
		"dashboards": object{
			"enabled": true, "labels": object{"found": "yes"}, "annotations": object{"folder": "Agents"},
		},
	})
	for key, wants := range map[string][]string{
		"ServiceMonitor/capstan-system/capstan":              {"release: a", "interval: 1m"},
		"PrometheusRule/capstan-system/capstan":              {"release: b", "alert: CapstanDown"},
		"ConfigMap/capstan-system/capstan-dashboard":         {"folder: Agents", `found: "yes"`, "legendFormat"},
		"ClusterRoleBinding/<nil>/capstan-metrics-reader":    {"name: prometheus", "namespace: metrics"},
		"Service/capstan-system/capstan-metrics":             {"clusterIP: None"},
		"Deployment/capstan-system/capstan-manager":          {"containerPort: 8443"},
		"ClusterRole/<nil>/capstan-metrics-reader":           {"/metrics"},
		"PriorityClass/<nil>/capstan-manager":                {"value:"},
		"ServiceAccount/capstan-system/capstan-manager":      {"name: capstan-manager"},
		"PodDisruptionBudget/capstan-system/capstan-manager": {"selector"},
	} {
		content, err := yaml.Marshal(objects[key])
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(string(content), want) {
				t.Errorf("%s lacks %q:\n%.2000s", key, want, content)
			}
		}
	}
}

// someEgressRules use every field of an EgressPolicy.
func someEgressRules() []any {
	return []any{
		object{
			"namespaces": []any{"team-a"}, "plainHTTP": "Allowed",
			"services": []any{object{"namespace": "models", "name": "vllm", "ports": []any{8000}}},
		},
		object{
			"namespaces": []any{"*"}, "cidrs": []any{object{"cidr": "10.20.0.0/16", "ports": []any{443, 8443}}}, "caBundle": "",
		},
	}
}

func egressRules(rules ...any) object {
	return object{"image": sourceImages(), "egress": object{"rules": rules}}
}

func TestTheManagerReadsTheRulesOfTheValues(t *testing.T) {
	objects := mustRender(t, "agents", object{
		"image": sourceImages(),
		"egress": object{
			"rules": someEgressRules(), "allowCIDRs": []any{"10.96.0.0/12"}, "denyCIDRs": []any{"203.0.113.0/24"},
		},
		"manager": object{"extraVolumes": []any{object{"name": "more", "emptyDir": object{}}}},
	})
	file := objects["ConfigMap/agents/capstan-egress"]["data"].(object)["egress.yaml"].(string)
	var policy object
	if err := yaml.UnmarshalStrict([]byte(file), &policy); err != nil {
		t.Fatal(err)
	}
	var want any
	content, err := yaml.Marshal(someEgressRules())
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(content, &want); err != nil {
		t.Fatal(err)
	}
	if policy["apiVersion"] != "manager.capstan.dev/v1alpha1" || policy["kind"] != "EgressPolicy" ||
		!reflect.DeepEqual(policy["rules"], want) {
		t.Errorf("the file is\n%s", file)
	}
	deployment, err := yaml.Marshal(objects["Deployment/agents/capstan-manager"])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"- --egress-config=/etc/capstan/egress/egress.yaml", "mountPath: /etc/capstan/egress", "name: capstan-egress",
		"- --egress-allow-cidr=10.96.0.0/12", "- --egress-deny-cidr=203.0.113.0/24", "name: more",
	} {
		if !strings.Contains(string(deployment), want) {
			t.Errorf("the Deployment lacks %q:\n%s", want, deployment)
		}
	}
}

// database returns the values of a database, with those of a test.
func database(with object) object {
	postgres := object{
		"connection": "postgres://db-1.example:5432,db-2.example:5432/capstan?application_name=capstan",
		"caSecret":   "capstan-ca", "credentialsSecret": "capstan-app",
	}
	maps.Copy(postgres, with)
	return object{"image": sourceImages(), "store": object{"type": "postgres", "postgres": postgres}}
}

func TestTheManagerConnectsToTheDatabaseOfTheValues(t *testing.T) {
	manager := func(values object) (volumes, container object, arguments []any) {
		deployment := mustRender(t, "agents", values)["Deployment/agents/capstan-manager"]
		pod := deployment["spec"].(object)["template"].(object)["spec"].(object)
		container = pod["containers"].([]any)[0].(object)
		return pod, container, container["args"].([]any)
	}
	key := func(name string) object { return object{"key": name, "path": name} }
	pod, container, arguments := manager(database(object{"connections": 40, "statementTimeout": "5s", "retention": "48h"}))
	if want := []any{
		object{"name": "postgres-credentials", "secret": object{
			"secretName": "capstan-app", "items": []any{key("username"), key("password")},
		}},
		object{"name": "postgres-ca", "secret": object{"secretName": "capstan-ca", "items": []any{key("ca.crt")}}},
	}; !reflect.DeepEqual(pod["volumes"], want) {
		t.Errorf("the volumes are %v", pod["volumes"])
	}
	if want := []any{
		object{"name": "postgres-credentials", "mountPath": "/etc/capstan/postgres", "readOnly": true},
		object{"name": "postgres-ca", "mountPath": "/etc/capstan/postgres-ca", "readOnly": true},
	}; !reflect.DeepEqual(container["volumeMounts"], want) {
		t.Errorf("the mounts are %v", container["volumeMounts"])
	}
	_, _, before := manager(object{"image": sourceImages()})
	if want := []any{
		"--store=postgres",
		"--postgres-connection=postgres://db-1.example:5432,db-2.example:5432/capstan?application_name=capstan",
		"--postgres-connections=40", "--postgres-statement-timeout=5s", "--postgres-retention=48h",
		"--postgres-credentials=/etc/capstan/postgres", "--postgres-ca=/etc/capstan/postgres-ca/ca.crt",
	}; !reflect.DeepEqual(arguments[len(before):], want) {
		t.Errorf("the arguments are %v", arguments[len(before):])
	}

	pod, container, arguments = manager(object{"image": sourceImages(), "store": object{"postgres": object{
		"connection": "postgres://db.example/capstan", "readerCredentialsSecret": "reader", "readerConnections": 8,
	}}})
	if want := []any{object{"name": "postgres-reader-credentials", "secret": object{
		"secretName": "reader", "items": []any{key("username"), key("password")},
	}}}; !reflect.DeepEqual(pod["volumes"], want) {
		t.Errorf("the volumes are %v", pod["volumes"])
	}
	if want := []any{
		object{"name": "postgres-reader-credentials", "mountPath": "/etc/capstan/postgres-reader", "readOnly": true},
	}; !reflect.DeepEqual(container["volumeMounts"], want) {
		t.Errorf("the mounts are %v", container["volumeMounts"])
	}
	for _, want := range []any{
		"--postgres-reader-credentials=/etc/capstan/postgres-reader", "--postgres-reader-connections=8",
	} {
		if !slices.Contains(arguments, want) {
			t.Errorf("the arguments %v lack %s", arguments, want)
		}
	}

	// New Sessions are in Kubernetes again, and the database still has others. Its proxy is in the pod.
	leaving := database(object{"credentialsSecret": "", "caSecret": "", "plaintext": true})
	leaving["store"].(object)["type"] = "kubernetes"
	pod, _, arguments = manager(leaving)
	if want := []any{
		"--postgres-connection=postgres://db-1.example:5432,db-2.example:5432/capstan?application_name=capstan",
		"--postgres-connections=16", "--postgres-statement-timeout=10s", "--postgres-retention=24h", "--postgres-plaintext",
	}; !reflect.DeepEqual(arguments[len(before):], want) || pod["volumes"] != nil {
		t.Errorf("the arguments are %v, the volumes %v", arguments[len(before):], pod["volumes"])
	}
}
