// Command argocd is Argo CD's own health engine as a filter: it reads a stream of objects in JSON and writes, for each,
// one line of JSON with the health that Argo CD computes. The only argument is the ConfigMap with the health checks,
// as Argo CD would be given it.
//
// It is a module of its own, because Argo CD brings most of its product along, built against the Kubernetes of its own
// choice.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	appv1 "github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	"github.com/argoproj/argo-cd/v3/util/lua"
	"github.com/argoproj/gitops-engine/pkg/health"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// healthKey begins the keys of the ConfigMap that hold health checks; the group and the kind follow, with a _ between
// them.
const healthKey = "resource.customizations.health."

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: argocd CONFIGMAP < OBJECTS")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// run writes the health of each object of a stream.
func run(configMap string, objects io.Reader, results io.Writer) error {
	checks, err := readChecks(configMap)
	if err != nil {
		return err
	}
	decoder, encoder := json.NewDecoder(objects), json.NewEncoder(results)
	for {
		var raw json.RawMessage
		if err := decoder.Decode(&raw); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading the objects: %w", err)
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(raw); err != nil {
			return fmt.Errorf("reading an object: %w", err)
		}
		result, err := health.GetResourceHealth(object, checks)
		if err != nil {
			return fmt.Errorf("the health check of %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		if result == nil {
			return fmt.Errorf("%s has no health check", object.GetKind())
		}
		if err := encoder.Encode(result); err != nil {
			return fmt.Errorf("writing the result: %w", err)
		}
	}
}

// readChecks reads the health checks of a ConfigMap, under the names that Argo CD gives them: group/kind.
func readChecks(path string) (lua.ResourceHealthOverrides, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the health checks: %w", err)
	}
	var configMap corev1.ConfigMap
	if err := yaml.UnmarshalStrict(content, &configMap); err != nil {
		return nil, fmt.Errorf("parsing the health checks: %w", err)
	}
	checks := lua.ResourceHealthOverrides{}
	for key, script := range configMap.Data {
		name, ok := strings.CutPrefix(key, healthKey)
		if !ok {
			return nil, fmt.Errorf("the key %s is no health check", key)
		}
		group, kind, ok := strings.Cut(name, "_")
		if !ok {
			return nil, fmt.Errorf("the key %s does not name group and kind", key)
		}
		checks[group+"/"+kind] = appv1.ResourceOverride{HealthLua: script}
	}
	return checks, nil
}
