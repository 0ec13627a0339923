package jobspec

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

// ownPrefix begins the names of all our variables. A Tool cannot set them.
const ownPrefix = "CAPSTAN_"

// containerEnvironment returns the environment of the tool's container: the Tool's variables, and the runtime's. The
// kubelet expands $(NAME) in values, so the runtime's are escaped; those of a Tool are not.
func containerEnvironment(p Params) []corev1.EnvVar {
	_, timeout := Timeouts(p.Call, p.Tool)
	own := []corev1.EnvVar{
		{Name: result.EnvSession, Value: p.Session},
		{Name: result.EnvTurn, Value: p.Turn.Name},
		{Name: result.EnvTool, Value: p.ToolName},
		{Name: result.EnvIdempotencyKey, Value: tool.IdempotencyKey(p.Turn.UID, p.Call.ID)},
		{Name: result.EnvArgumentsFile, Value: path.Join(argumentsMount, argumentsName)},
		{Name: result.EnvStartMark, Value: path.Join(startMount, startMarkName)},
		{Name: result.EnvMessageFile, Value: terminationMessageFile},
		{Name: result.EnvTimeout, Value: timeout.String()},
		{Name: result.EnvScalars, Value: encodeNames(definition.ScalarNames(p.Tool.InputSchema))},
	}
	if p.Locale != "" {
		own = append(own, corev1.EnvVar{Name: result.EnvLocale, Value: p.Locale})
	}
	if p.Files != "" {
		own = append(own,
			corev1.EnvVar{Name: result.EnvFilesFile, Value: path.Join(argumentsMount, filesName)},
			corev1.EnvVar{Name: result.EnvFilesRoot, Value: filesMount},
			corev1.EnvVar{Name: result.EnvOutputs, Value: encodeNames(p.Outputs)})
	}
	if p.Capability != "" {
		own = append(own,
			corev1.EnvVar{Name: result.EnvTokenFile, Value: path.Join(tokenMount, tokenName)},
			corev1.EnvVar{Name: result.EnvCAFile, Value: path.Join(tokenMount, caName)})
	}
	if p.KeepsOutput {
		own = append(own, corev1.EnvVar{Name: result.EnvKeepOutput, Value: "true"})
	}
	if tool.ValidTraceParent(p.TraceParent) {
		own = append(own, corev1.EnvVar{Name: result.EnvTraceParent, Value: p.TraceParent})
	}
	environment := make([]corev1.EnvVar, 0, len(p.Tool.Job.Env)+len(own))
	for _, variable := range p.Tool.Job.Env {
		if !isOwn(variable.Name, own) {
			environment = append(environment, envVar(variable))
		}
	}
	for _, variable := range own {
		variable.Value = strings.ReplaceAll(variable.Value, "$", "$$")
		environment = append(environment, variable)
	}
	return environment
}

// envVar returns a variable of a Tool. The kubelet reads a Secret's value: the manager never sees it.
func envVar(variable v1alpha1.EnvVar) corev1.EnvVar {
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
