package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// schemaFolder is where the schemas are; kubeconform finds them by {{.ResourceKind}}_{{.ResourceAPIVersion}}.json.
const schemaFolder = "dist/schemas"

// definition holds the parts of a CustomResourceDefinition that are read.
type definition struct {
	Spec struct {
		Group string `json:"group"`
		Names struct {
			Kind string `json:"kind"`
		} `json:"names"`
		Versions []struct {
			Name   string `json:"name"`
			Schema struct {
				Root map[string]any `json:"openAPIV3Schema"`
			} `json:"schema"`
		} `json:"versions"`
	} `json:"spec"`
}

// readDefinitions reads the CustomResourceDefinitions, in the order of their file names.
func readDefinitions(root string) ([]definition, error) {
	paths, err := filepath.Glob(filepath.Join(root, "config", "crd", "bases", "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("listing the CustomResourceDefinitions: %w", err)
	}
	definitions := make([]definition, 0, len(paths))
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading a CustomResourceDefinition: %w", err)
		}
		var d definition
		if err := yaml.Unmarshal(content, &d); err != nil {
			return nil, fmt.Errorf("parsing %s: %w", path, err)
		}
		definitions = append(definitions, d)
	}
	return definitions, nil
}

// schemas makes a JSON Schema of every version of every kind.
func schemas(root string, files map[string][]byte) error {
	definitions, err := readDefinitions(root)
	if err != nil {
		return err
	}
	for _, d := range definitions {
		for _, version := range d.Spec.Versions {
			schema := jsonSchema(version.Schema.Root, d.Spec.Names.Kind, d.Spec.Group+"/"+version.Name)
			content, err := json.MarshalIndent(schema, "", "  ")
			if err != nil {
				return fmt.Errorf("writing the schema of %s: %w", d.Spec.Names.Kind, err)
			}
			name := fmt.Sprintf("%s/%s_%s.json", schemaFolder, strings.ToLower(d.Spec.Names.Kind), version.Name)
			files[name] = append(content, '\n')
		}
	}
	return nil
}

// jsonSchema is the schema of a whole object of a kind. Rules in CEL have no form in JSON Schema: only the API
// server enforces them.
func jsonSchema(openAPI map[string]any, kind, apiVersion string) map[string]any {
	root, _ := standard(openAPI).(map[string]any)
	root["$schema"] = "http://json-schema.org/draft-07/schema#"
	root["title"] = kind
	if properties, ok := root["properties"].(map[string]any); ok {
		properties["apiVersion"] = map[string]any{"type": "string", "enum": []any{apiVersion}}
		properties["kind"] = map[string]any{"type": "string", "enum": []any{kind}}
	}
	required, _ := root["required"].([]any)
	root["required"] = append([]any{"apiVersion", "kind", "metadata"}, required...)
	return root
}

// standard turns the dialect of CustomResourceDefinitions into plain JSON Schema: unknown fields are rejected, as the
// API server rejects them for kubectl; nullable values are declared; extensions are left out.
func standard(schema any) any {
	switch schema := schema.(type) {
	case []any:
		out := make([]any, 0, len(schema))
		for _, element := range schema {
			out = append(out, standard(element))
		}
		return out
	case map[string]any:
		return standardObject(schema)
	default:
		return schema
	}
}

func standardObject(schema map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range schema {
		switch key {
		case "properties":
			out[key] = eachStandard(value)
		case "items", "additionalProperties", "allOf", "anyOf", "oneOf", "not":
			out[key] = standard(value)
		case "nullable":
		default:
			if !strings.HasPrefix(key, "x-kubernetes-") {
				out[key] = value
			}
		}
	}
	_, hasProperties := schema["properties"]
	_, hasOthers := schema["additionalProperties"]
	if hasProperties && !hasOthers && schema["x-kubernetes-preserve-unknown-fields"] != true {
		out["additionalProperties"] = false
	}
	if kind, ok := schema["type"].(string); ok && schema["nullable"] == true {
		out["type"] = []any{kind, "null"}
	}
	return out
}

// eachStandard goes through fields, whose names are not keywords.
func eachStandard(properties any) any {
	fields, ok := properties.(map[string]any)
	if !ok {
		return properties
	}
	out := make(map[string]any, len(fields))
	for name, field := range fields {
		out[name] = standard(field)
	}
	return out
}
