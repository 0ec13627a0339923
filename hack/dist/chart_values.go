package main

import "errors"

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
func chartValues(objects, observability []object) ([]chartValue, error) {
	deployment, err := only(objects, "Deployment")
	if err != nil {
		return nil, err
	}
	priority, err := only(objects, "PriorityClass")
	if err != nil {
		return nil, err
	}
	monitor, err := only(observability, "ServiceMonitor")
	if err != nil {
		return nil, err
	}
	dashboard, err := only(observability, "ConfigMap")
	if err != nil {
		return nil, err
	}
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
	values = append(values, egressValues()...)
	values = append(values, storeValues()...)
	values = append(values, objectValues()...)
	return append(values, observabilityValues(monitor, dashboard)...), nil
}

func imageValues(container object) []chartValue {
	digest := func() object { return text(object{"pattern": "^$|^sha256:[a-f0-9]{64}$"}) }
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
				digest(),
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
	}
}

// egressValues are those of the destinations that the manager may reach for others. The manager checks the rules more
// strictly; the schema finds what is misspelled before anything is installed.
func egressValues() []chartValue {
	ports := object{
		"type": "array", "minItems": 1, "maxItems": 100, "items": number(object{"minimum": 1, "maximum": 65535}),
	}
	closed := func(required []any, properties object) object {
		return object{"type": "object", "additionalProperties": false, "required": required, "properties": properties}
	}
	several := func(items object) object { return object{"type": "array", "items": items, "maxItems": 1000} }
	ranges := func() object {
		return object{"type": "array", "items": text(object{"pattern": "^[0-9a-fA-F.:]+/[0-9]+$"})}
	}
	rule := closed([]any{"namespaces"}, object{
		"namespaces": object{
			"type":     "array",
			"minItems": 1,
			"maxItems": 1000,
			"items":    text(object{"pattern": `^(\*|[a-z0-9]([-a-z0-9]*[a-z0-9])?)$`}),
		},
		"services": several(closed([]any{"namespace", "name", "ports"}, object{
			"namespace": text(namespaceName), "name": text(object{"minLength": 1}), "ports": ports,
		})),
		"cidrs": several(closed([]any{"cidr", "ports"}, object{
			"cidr": text(object{"pattern": "^[0-9a-fA-F.:]+/[0-9]+$"}), "ports": ports,
		})),
		"plainHTTP": text(object{"enum": []any{"Allowed", "Denied"}}),
		"caBundle":  text(),
	})
	rule["anyOf"] = []any{object{"required": []any{"services"}}, object{"required": []any{"cidrs"}}}
	return []chartValue{
		{"egress", group{}, "What Models, HTTP tools, MCPServers and webhooks may reach besides public addresses.", nil},
		{
			"egress.rules",
			[]any{},
			"The rules of an EgressPolicy, in a ConfigMap that the manager mounts; docs/operations.md explains them.",
			several(rule),
		},
		{"egress.allowCIDRs", []any{}, "Ranges of addresses that all namespaces may reach.", ranges()},
		{"egress.denyCIDRs", []any{}, "Ranges of addresses that no namespace may reach.", ranges()},
		{"payments", group{}, "Payments for calls of Tools with http.payment; docs/payments.md explains them.", nil},
		{"payments.enabled", false, "Whether the manager pays, from the wallets of the namespaces.", toggle()},
	}
}

func observabilityValues(monitor, dashboard object) []chartValue {
	endpoint := monitor["spec"].(object)["endpoints"].([]any)[0].(object)
	return []chartValue{
		{"serviceMonitor", group{}, "A Service for the metrics, and a ServiceMonitor of the Prometheus Operator.", nil},
		{"serviceMonitor.enabled", false, "Whether the chart has them.", toggle()},
		{"serviceMonitor.labels", object{}, "Labels by which the Prometheus selects the ServiceMonitor.", mapping()},
		{
			"serviceMonitor.interval",
			endpoint["interval"],
			"How often the metrics are read.",
			text(object{"pattern": "^[0-9]+(ms|s|m)$"}),
		},
		{
			"serviceMonitor.prometheus",
			group{},
			"The account of the Prometheus, which gets the right to read the metrics.",
			nil,
		},
		{"serviceMonitor.prometheus.serviceAccount", "", "Its name. Empty: no right is given.", text()},
		{"serviceMonitor.prometheus.namespace", "monitoring", "Its namespace.", text(namespaceName)},
		{"prometheusRule", group{}, "The alerts of docs/observability.md, for the Prometheus Operator.", nil},
		{"prometheusRule.enabled", false, "Whether the chart has them.", toggle()},
		{"prometheusRule.labels", object{}, "Labels by which the Prometheus selects the PrometheusRule.", mapping()},
		{"dashboards", group{}, "The dashboard for Grafana, in a ConfigMap.", nil},
		{"dashboards.enabled", false, "Whether the chart has it.", toggle()},
		{
			"dashboards.labels", dashboard["metadata"].(object)["labels"],
			"Labels by which the sidecar of Grafana selects the ConfigMap.", mapping(),
		},
		{"dashboards.annotations", object{}, "Its annotations, such as the folder in Grafana.", mapping()},
	}
}
