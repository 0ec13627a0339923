package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// chartValue is one value of the chart, or, without a default, a group of them.
type chartValue struct {
	path        string
	byDefault   any
	description string
	schema      object
}

// group is the default of a value that has others below it.
type group struct{}

func text(more ...object) object   { return typed("string", more) }
func number(more ...object) object { return typed("integer", more) }
func toggle() object               { return object{"type": "boolean"} }
func mapping() object              { return object{"type": "object"} }
func texts() object                { return object{"type": "array", "items": text()} }
func mappings() object             { return object{"type": "array", "items": mapping()} }

func typed(name string, more []object) object {
	schema := object{"type": name}
	for _, m := range more {
		for key, value := range m {
			schema[key] = value
		}
	}
	return schema
}

// namespaceName is the pattern of the name of a namespace.
var namespaceName = object{"pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63}

// chartValues lists the values. The defaults that config has are read from there.
func chartValues(deployment, priority object) ([]chartValue, error) {
	spec := deployment["spec"].(object)
	pod := spec["template"].(object)["spec"].(object)
	container := pod["containers"].([]any)[0].(object)
	var memoryLimit any
	for _, variable := range container["env"].([]any) {
		if variable := variable.(object); variable["name"] == "GOMEMLIMIT" {
			memoryLimit = variable["value"]
		}
	}
	if memoryLimit == nil {
		return nil, errors.New("the manager's Deployment does not set GOMEMLIMIT")
	}
	values := []chartValue{
		{
			"replicas", spec["replicas"], "The number of managers. Only one works; further ones take over faster when it fails.",
			number(object{"minimum": 0}),
		},
		{
			"watchNamespaces",
			[]any{},
			"The namespaces that the manager serves, which must exist. Empty: all of them.",
			object{"type": "array", "items": text(namespaceName), "uniqueItems": true},
		},
	}
	values = append(values, imageValues(container)...)
	values = append(values, managerValues(container, memoryLimit)...)
	values = append(values, placementValues(priority)...)
	return append(values, objectValues()...), nil
}

func imageValues(container object) []chartValue {
	digest := text(object{"pattern": "^$|^sha256:[a-f0-9]{64}$"})
	values := []chartValue{
		{"image", group{}, "The images of the manager and of the launcher, which runs in the pods of tools.", nil},
		{
			"image.registry",
			"",
			"The registry, and the path before the names of the images. A released chart has that of the release.",
			text(),
		},
		{
			"image.pullPolicy", container["imagePullPolicy"], "When the node pulls the manager's image.",
			text(object{"enum": []any{"Always", "IfNotPresent", "Never"}}),
		},
		{
			"image.pullSecrets",
			[]any{},
			"Secrets of the release's namespace that pull the manager's image: [{name: registry}]. " +
				"The launcher is pulled with the secrets of each tool; see docs/install.md.",
			mappings(),
		},
	}
	for _, program := range []string{"manager", "launcher"} {
		path := "image." + program
		values = append(values,
			chartValue{path, group{}, "The image of the " + program + ".", nil},
			chartValue{path + ".repository", program, "Its name in the registry.", text(object{"minLength": 1})},
			chartValue{path + ".tag", "", "Its tag, where it has no digest.", text()},
			chartValue{
				path + ".digest", "", "Its digest, which takes precedence over the tag. A released chart has those of the release.",
				digest,
			},
		)
	}
	return values
}

func managerValues(container object, memoryLimit any) []chartValue {
	return []chartValue{
		{"manager", group{}, "The manager's container.", nil},
		{"manager.extraArgs", []any{}, "Further flags of the manager; docs/operations.md explains them.", texts()},
		{"manager.extraEnv", []any{}, "Further environment variables.", mappings()},
		{
			"manager.extraVolumes",
			[]any{},
			"Further volumes of the manager's pod, such as the ConfigMap of a configuration file.",
			mappings(),
		},
		{"manager.extraVolumeMounts", []any{}, "Where the container mounts them.", mappings()},
		{
			"manager.goMemLimit", memoryLimit, "The soft memory limit of the Go runtime: about 70% of the memory limit.",
			text(object{"pattern": "^[0-9]+([KMGT]i)?B$"}),
		},
		{
			"resources", container["resources"], "Requests and limits of the manager; docs/operations.md explains its memory.",
			mapping(),
		},
	}
}

func placementValues(priority object) []chartValue {
	return []chartValue{
		{"priorityClass", group{}, "The PriorityClass of the manager, above that of tool pods.", nil},
		{"priorityClass.create", true, "Whether the chart creates the class. Otherwise it must exist.", toggle()},
		{"priorityClass.name", name(priority), "Its name.", text(object{"minLength": 1})},
		{
			"priorityClass.value", priority["value"], "Its value. A full node keeps no pod of a lower one before the manager's.",
			number(object{"minimum": 1, "maximum": 1000000000}),
		},
		{"nodeSelector", object{}, "Labels that nodes must have besides kubernetes.io/os: linux.", mapping()},
		{"tolerations", []any{}, "Taints that the manager's pod tolerates.", mappings()},
		{"affinity", object{}, "The affinity of the manager's pod.", mapping()},
		{"topologySpreadConstraints", []any{}, "How several managers are spread.", mappings()},
		{"podAnnotations", object{}, "Further annotations of the manager's pod.", mapping()},
		{"podLabels", object{}, "Further labels of the manager's pod.", mapping()},
	}
}

func objectValues() []chartValue {
	return []chartValue{
		{"crds", group{}, "The definitions of the kinds.", nil},
		{"crds.install", true, "Whether the chart has them. It then also updates them.", toggle()},
		{"crds.keep", true, "Whether they stay when the release is uninstalled, with every object of their kinds.", toggle()},
		{"namespace", group{}, "The namespace of the release.", nil},
		{"namespace.create", false, "Whether the chart has the namespace, for installs by helm template. Otherwise use " +
			"--create-namespace.", toggle()},
		{"policies", group{}, "The ValidatingAdmissionPolicies.", nil},
		{
			"policies.install", true, "Whether the chart has them. The manager reads no Secret and is not ready without them.",
			toggle(),
		},
		{"policies.fourEyes", false, "Whether the user who submitted a Turn is barred from approving its calls.", toggle()},
		{"serviceMonitor", group{}, "A Service for the metrics, and a ServiceMonitor of the Prometheus Operator.", nil},
		{"serviceMonitor.enabled", false, "Whether the chart has them.", toggle()},
		{"serviceMonitor.labels", object{}, "Labels by which the Prometheus selects the ServiceMonitor.", mapping()},
		{"serviceMonitor.interval", "30s", "How often the metrics are read.", text(object{"pattern": "^[0-9]+(ms|s|m)$"})},
		{
			"serviceMonitor.prometheus",
			group{},
			"The account of the Prometheus, which gets the right to read the metrics.",
			nil,
		},
		{"serviceMonitor.prometheus.serviceAccount", "", "Its name. Empty: no right is given.", text()},
		{"serviceMonitor.prometheus.namespace", "monitoring", "Its namespace.", text(namespaceName)},
	}
}

// valuesFile returns values.yaml, with the descriptions as comments.
func valuesFile(values []chartValue) ([]byte, error) {
	out := bytes.NewBufferString(
		"# The values of the chart. Generated by \"make dist\" from hack/dist/chart_values.go; do not edit.\n",
	)
	for _, v := range values {
		indent := strings.Repeat("  ", strings.Count(v.path, "."))
		fmt.Fprintf(out, "%s# %s\n%s%s:", indent, v.description, indent, v.path[strings.LastIndex(v.path, ".")+1:])
		if _, isGroup := v.byDefault.(group); isGroup {
			out.WriteString("\n")
			continue
		}
		content, err := yaml.Marshal(v.byDefault)
		if err != nil {
			return nil, fmt.Errorf("writing the default of %s: %w", v.path, err)
		}
		if m, isMap := v.byDefault.(object); isMap && len(m) > 0 {
			out.WriteString("\n" + indentBy(string(content), indent+"  "))
			continue
		}
		out.WriteString(" " + string(content))
	}
	return out.Bytes(), nil
}

// valuesSchema returns values.schema.json, by which Helm refuses values that do not exist.
func valuesSchema(values []chartValue) ([]byte, error) {
	closed := func() object {
		return object{"type": "object", "additionalProperties": false, "properties": object{}}
	}
	root := closed()
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "Values of the chart capstan"
	for _, v := range values {
		schema := v.schema
		if _, isGroup := v.byDefault.(group); isGroup {
			schema = closed()
		} else {
			schema["default"] = v.byDefault
		}
		schema["description"] = v.description
		in := root
		path := strings.Split(v.path, ".")
		for _, step := range path[:len(path)-1] {
			in = in["properties"].(object)[step].(object)
		}
		in["properties"].(object)[path[len(path)-1]] = schema
	}
	// Helm gives it to every chart that is part of another one.
	root["properties"].(object)["global"] = object{
		"type": "object", "description": "Values of the chart that contains this one. None is used.",
	}
	content, err := json.MarshalIndent(root, "", "  ")
	return append(content, '\n'), err
}

const chartPage = `# The Helm chart of Capstan

Generated by "make dist"; do not edit. [docs/install.md](../../docs/install.md) describes how to install, upgrade, roll
back and uninstall.

The chart has the objects of config/default. Those have fixed names, because policies and other objects refer to them:
a cluster has one release of it. In the source tree the chart names no image; "make release" makes one that does.

| value | default | |
| --- | --- | --- |
`

// valuesPage returns the table of the values.
func valuesPage(values []chartValue) ([]byte, error) {
	out := bytes.NewBufferString(chartPage)
	for _, v := range values {
		if _, isGroup := v.byDefault.(group); isGroup {
			continue
		}
		byDefault, err := json.Marshal(v.byDefault)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(out, "| `%s` | `%s` | %s |\n", v.path, byDefault, v.description)
	}
	return out.Bytes(), nil
}
