package docs_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// quoted is a name in the text of a page.
	quoted = regexp.MustCompile("`([^`\n]+)`")
	// ownMetric is the name of a metric of the manager.
	ownMetric = regexp.MustCompile(`\bcapstan_[a-z_]+\b`)
	// value is a value of a label, a code, a reason, a state or a phase.
	value = regexp.MustCompile(`^(?:[a-z]+(?:_[a-z]+)+|[A-Z][a-z]+(?:[A-Z][a-z]+)+)$`)
	// attribute is the name of an attribute of a span.
	attribute = regexp.MustCompile(`^(?:gen_ai|capstan|mcp|k8s|error)(?:\.[a-z_]+)+$`)
	// foreign are names of OpenTelemetry and of Prometheus.
	foreign = []string{"always_on", "always_off", "rule_files"}
)

// TestThePagesForTheNightNameWhatExists looks up the names of the runbooks and of the page about observability:
// metrics, flags, reasons and outcomes on the pages that other tests compare with the code, attributes in the code.
func TestThePagesForTheNightNameWhatExists(t *testing.T) {
	var known strings.Builder
	for _, page := range []string{
		"operations.md", "flags.md", "errors.md", "tools.md", "concepts.md", root + "/config/observability/alerts.yaml",
		root + "/config/observability/kustomization.yaml", root + "/internal/runtime/semconv/semconv.go",
	} {
		known.WriteString(read(t, page))
	}
	for _, codes := range constants(t, "errorcodes.go", "ErrorCode") {
		known.WriteString("`" + strings.Join(codes, "` `") + "`")
	}
	names := 0
	for _, page := range []string{"runbooks.md", "observability.md"} {
		text := read(t, page)
		for _, name := range ownMetric.FindAllString(text, -1) {
			names++
			if series := regexp.MustCompile(`\b` + name + `\b`); !series.MatchString(read(t, "operations.md")) {
				t.Errorf("%s: no metric is named %s", page, name)
			}
		}
		for _, found := range quoted.FindAllStringSubmatch(withoutBlocks(text), -1) {
			name := found[1]
			flag := strings.HasPrefix(name, "--")
			if !flag && !value.MatchString(name) && !attribute.MatchString(name) || slices.Contains(foreign, name) {
				continue
			}
			names++
			switch {
			case flag && !strings.Contains(read(t, "flags.md"), "`"+name+"`"):
				t.Errorf("%s: the manager has no flag %s", page, name)
			case !flag && !strings.Contains(known.String(), name):
				t.Errorf("%s: nothing is named %s", page, name)
			}
		}
	}
	if names < 50 {
		t.Errorf("the pages have %d names only", names)
	}
}
