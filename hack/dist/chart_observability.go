package main

import (
	"path/filepath"

	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// component returns the objects of a kustomize component, which can only be built as a part of something else.
func component(folder string) ([]object, error) {
	absolute, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	files := filesys.MakeFsInMemory()
	disk := filesys.MakeFsOnDisk()
	names, err := disk.ReadDir(absolute)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		content, err := disk.ReadFile(filepath.Join(absolute, name))
		if err != nil {
			return nil, err
		}
		if err := files.WriteFile("/component/"+name, content); err != nil {
			return nil, err
		}
	}
	if err := files.WriteFile("/whole/kustomization.yaml", []byte("components: [../component]\n")); err != nil {
		return nil, err
	}
	return kustomizedOn(files, "/whole")
}

// observabilityTemplates are those of the objects of config/observability, each kind with a value of its own.
func observabilityTemplates(objects []object) map[string]template {
	return map[string]template{
		"service_monitor.yaml": conditional("serviceMonitor.enabled", ofKinds(objects, "Service", "ServiceMonitor"),
			func(o object, e *expressions) {
				if o["kind"] != "ServiceMonitor" {
					return
				}
				e.block(o["metadata"].(object)["labels"].(object), valuesOf("serviceMonitor.labels"))
				endpoint := o["spec"].(object)["endpoints"].([]any)[0].(object)
				endpoint["interval"] = e.scalar("{{ .Values.serviceMonitor.interval }}")
			}),
		"prometheus_rule.yaml": conditional("prometheusRule.enabled", ofKinds(objects, "PrometheusRule"),
			func(o object, e *expressions) {
				e.block(o["metadata"].(object)["labels"].(object), valuesOf("prometheusRule.labels"))
			}),
		"dashboards.yaml": conditional("dashboards.enabled", ofKinds(objects, "ConfigMap"),
			func(o object, e *expressions) {
				metadata := o["metadata"].(object)
				metadata["labels"] = object{}
				e.block(metadata["labels"].(object), valuesOf("dashboards.labels"))
				e.block(metadata, fieldOf("annotations", "dashboards.annotations"))
			}),
	}
}
