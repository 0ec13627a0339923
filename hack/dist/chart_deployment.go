package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// expressions are the actions in the template of an object. The object has marks in their places, because an action is
// not YAML.
type expressions struct {
	texts []string
}

const mark = "capstan-expression-"

// scalar returns the mark of a single value.
func (e *expressions) scalar(text string) string {
	e.texts = append(e.texts, text)
	return fmt.Sprintf("%s%d-end", mark, len(e.texts)-1)
}

// block adds lines to a map. Those that begin with an action have no indentation of their own.
func (e *expressions) block(to object, lines string) {
	to[e.scalar(lines)] = "block"
}

// item adds lines to a list.
func (e *expressions) item(to []any, lines string) []any {
	return append(to, e.scalar(lines)+"-block")
}

var (
	blockLine  = regexp.MustCompile(`(?m)^( *)(?:- ` + mark + `(\d+)-end-block|` + mark + `(\d+)-end: block)\n`)
	scalarMark = regexp.MustCompile(mark + `(\d+)-end`)
)

// insert puts the actions in the places of the marks. INDENT in a text is the indentation of its place.
func (e *expressions) insert(content string) string {
	content = blockLine.ReplaceAllStringFunc(content, func(line string) string {
		match := blockLine.FindStringSubmatch(line)
		text, indent := e.text(match[2]+match[3]), match[1]
		var out strings.Builder
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "{{- ") {
				line = indent + line
			}
			out.WriteString(line)
		}
		out.WriteString("\n")
		return strings.ReplaceAll(out.String(), "INDENT", strconv.Itoa(len(indent)))
	})
	return scalarMark.ReplaceAllStringFunc(content, func(found string) string {
		return e.text(scalarMark.FindStringSubmatch(found)[1])
	})
}

func (e *expressions) text(index string) string {
	i, err := strconv.Atoi(index)
	if err != nil {
		panic(err) // the expression matches digits
	}
	return e.texts[i]
}

// valuesOf returns the lines of an optional map or list of the values.
func valuesOf(path string) string {
	return "{{- with .Values." + path + " }}\n{{- toYaml . | nindent INDENT }}\n{{- end }}"
}

// fieldOf returns the lines of an optional field whose value is a map or a list.
func fieldOf(field, path string) string {
	return "{{- with .Values." + path + " }}\n" + field + ":\n{{- toYaml . | nindent INDENT }}\n{{- end }}"
}

// chartDeployment makes the manager's Deployment follow the values.
func chartDeployment(o object, e *expressions) {
	spec := o["spec"].(object)
	spec["replicas"] = e.scalar("{{ int .Values.replicas }}")
	template := spec["template"].(object)
	metadata := template["metadata"].(object)
	e.block(metadata["annotations"].(object), valuesOf("podAnnotations"))
	e.block(metadata["labels"].(object), valuesOf("podLabels"))

	pod := template["spec"].(object)
	pod["priorityClassName"] = e.scalar("{{ .Values.priorityClass.name }}")
	e.block(pod["nodeSelector"].(object), valuesOf("nodeSelector"))
	e.block(pod, fieldOf("tolerations", "tolerations"))
	e.block(pod, fieldOf("affinity", "affinity"))
	e.block(pod, fieldOf("topologySpreadConstraints", "topologySpreadConstraints"))
	e.block(pod, fieldOf("imagePullSecrets", "image.pullSecrets"))
	addVolumes(pod, e, "volumes", "manager.extraVolumes", egressVolume, storeVolumes)

	container := pod["containers"].([]any)[0].(object)
	container["image"] = e.scalar(`{{ include "capstan.image" (list . "manager") | quote }}`)
	container["imagePullPolicy"] = e.scalar("{{ .Values.image.pullPolicy }}")
	container["resources"] = object{}
	e.block(container["resources"].(object), valuesOf("resources"))
	addVolumes(container, e, "volumeMounts", "manager.extraVolumeMounts", egressMount, storeMounts)
	args := container["args"].([]any)
	for i, arg := range args {
		if strings.HasPrefix(arg.(string), "--launcher-image=") {
			args[i] = e.scalar(`{{ include "capstan.image" (list . "launcher") | printf "--launcher-image=%s" | quote }}`)
		}
	}
	args = e.item(args, `{{- with .Values.watchNamespaces }}
- {{ join "," . | printf "--watch-namespaces=%s" | quote }}
{{- end }}`)
	args = e.item(e.item(args, egressArguments), storeArguments)
	container["args"] = e.item(args, `{{- with .Values.manager.extraArgs }}
{{- toYaml . | nindent INDENT }}
{{- end }}`)
	for _, variable := range container["env"].([]any) {
		if variable := variable.(object); variable["name"] == "GOMEMLIMIT" {
			variable["value"] = e.scalar("{{ .Values.manager.goMemLimit | quote }}")
		}
	}
	container["env"] = e.item(container["env"].([]any), valuesOf("manager.extraEnv"))
}

// The file of egress.rules. The folder is mounted, and not the file, so that a change reaches the running manager.
const (
	egressVolume = `- name: egress-policy
  configMap:
    name: capstan-egress`
	egressMount = `- name: egress-policy
  mountPath: /etc/capstan/egress
  readOnly: true`
	egressArguments = `{{- if .Values.egress.rules }}
- --egress-config=/etc/capstan/egress/egress.yaml
{{- end }}
{{- if .Values.payments.enabled }}
- --payments
{{- end }}
{{- range .Values.egress.allowCIDRs }}
- {{ printf "--egress-allow-cidr=%s" . | quote }}
{{- end }}
{{- range .Values.egress.denyCIDRs }}
- {{ printf "--egress-deny-cidr=%s" . | quote }}
{{- end }}`
)

// addVolumes adds those of egress.rules and of the store, and those of the values, to a list that config may have or
// not.
func addVolumes(to object, e *expressions, field, path, egress, store string) {
	own := "{{- if .Values.egress.rules }}\n" + egress + "\n{{- end }}\n" + store
	if present, found := to[field].([]any); found {
		to[field] = e.item(e.item(present, own), valuesOf(path))
		return
	}
	sources := ".Values.egress.rules .Values.store.postgres.credentialsSecret " +
		".Values.store.postgres.readerCredentialsSecret .Values.store.postgres.caSecret .Values." + path
	e.block(to, "{{- if or "+sources+" }}\n"+field+":\n"+own+"\n"+valuesOf(path)+"\n{{- end }}")
}
