package tool

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

// ownPrefix begins the names of all our variables. A Tool cannot set them.
const ownPrefix = "CAPSTAN_"

// traceParent is a W3C trace context of any version.
var traceParent = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// containerEnvironment returns the environment of the tool's container: the Tool's variables, and the runtime's. The
// kubelet expands $(NAME) in values, so the runtime's are escaped; those of a Tool are not.
func containerEnvironment(p JobParams) []corev1.EnvVar {
	_, timeout := Timeouts(p.Call, p.Tool)
	own := []corev1.EnvVar{
		{Name: result.EnvSession, Value: p.Session},
		{Name: result.EnvTurn, Value: p.Turn.Name},
		{Name: result.EnvTool, Value: p.ToolName},
		{Name: result.EnvIdempotencyKey, Value: IdempotencyKey(p.Turn.UID, p.Call.ID)},
		{Name: result.EnvArgumentsFile, Value: path.Join(argumentsMount, argumentsName)},
		{Name: result.EnvStartMark, Value: path.Join(startMount, startMarkName)},
		{Name: result.EnvMessageFile, Value: terminationMessageFile},
		{Name: result.EnvTimeout, Value: timeout.String()},
		{Name: result.EnvScalars, Value: encodeNames(scalarNames(p.Tool.InputSchema))},
	}
	if p.Locale != "" {
		own = append(own, corev1.EnvVar{Name: result.EnvLocale, Value: p.Locale})
	}
	if traceParent.MatchString(p.TraceParent) {
		own = append(own, corev1.EnvVar{Name: result.EnvTraceParent, Value: p.TraceParent})
	}
	environment := make([]corev1.EnvVar, 0, len(p.Tool.Job.Env)+len(own))
	for _, variable := range p.Tool.Job.Env {
		if !isOwn(variable.Name, own) {
			environment = append(environment, given(variable))
		}
	}
	for _, variable := range own {
		variable.Value = strings.ReplaceAll(variable.Value, "$", "$$")
		environment = append(environment, variable)
	}
	return environment
}

// given returns a variable of a Tool. The kubelet reads a Secret's value: the manager never sees it.
func given(variable v1alpha1.EnvVar) corev1.EnvVar {
	ref := variable.SecretKeyRef
	if ref == nil {
		return corev1.EnvVar{Name: variable.Name, Value: variable.Value}
	}
	return corev1.EnvVar{Name: variable.Name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: ref.Name}, Key: ref.Key,
	}}}
}

// isOwn reports whether a Tool must not set a variable. The API rejects most of them; this covers Tools from before
// that rule.
func isOwn(name string, own []corev1.EnvVar) bool {
	return strings.HasPrefix(name, ownPrefix) ||
		slices.ContainsFunc(own, func(variable corev1.EnvVar) bool { return variable.Name == name })
}

// scalarNames are the arguments that a schema declares to be strings, numbers or booleans, in the order of their names.
// A schema that cannot be read declares none.
func scalarNames(schema *v1alpha1.JSON) []string {
	if schema == nil {
		return nil
	}
	var declared struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(schema.Raw, &declared) != nil {
		return nil
	}
	var names []string
	for name, property := range declared.Properties {
		if declaresScalar(property) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// declaresScalar reports whether the type of a property is a scalar one, or a list of scalar ones and null.
func declaresScalar(property json.RawMessage) bool {
	var one struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(property, &one) == nil {
		return isScalar(one.Type)
	}
	var several struct {
		Type []string `json:"type"`
	}
	if json.Unmarshal(property, &several) != nil {
		return false
	}
	scalars := 0
	for _, name := range several.Type {
		switch {
		case isScalar(name):
			scalars++
		case name != "null":
			return false
		}
	}
	return scalars > 0
}

func isScalar(name string) bool {
	return name == "string" || name == "number" || name == "integer" || name == "boolean"
}

func encodeNames(names []string) string {
	if len(names) == 0 {
		return "[]"
	}
	encoded, err := json.Marshal(names)
	if err != nil {
		return "[]" // a list of strings always encodes
	}
	return string(encoded)
}
