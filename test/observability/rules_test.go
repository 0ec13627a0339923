package observability_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"sigs.k8s.io/yaml"
)

// ruleTest is a test of alert rules, the part of promtool's format that is used.
type ruleTest struct {
	Name        string         `json:"name"`
	Interval    model.Duration `json:"interval"`
	InputSeries []struct {
		Series string `json:"series"`
		Values string `json:"values"`
	} `json:"input_series"`
	AlertRuleTest []struct {
		EvalTime  model.Duration `json:"eval_time"`
		Alertname string         `json:"alertname"`
		ExpAlerts []struct {
			ExpLabels map[string]string `json:"exp_labels"`
		} `json:"exp_alerts"`
	} `json:"alert_rule_test"`
}

// load returns the series of the test as the loader reads them.
func (t ruleTest) load() string {
	var text strings.Builder
	fmt.Fprintf(&text, "load %s\n", t.Interval)
	for _, input := range t.InputSeries {
		fmt.Fprintf(&text, "  %s %s\n", input.Series, input.Values)
	}
	return text.String()
}

// firing evaluates the rules every minute, and returns the labels of the alerts of a name that fire at a time.
func (t ruleTest) firing(name string, at time.Duration) []string {
	GinkgoHelper()
	loader, err := promqltest.NewLazyLoader(t.load(), promqltest.LazyLoaderOpts{
		EnableAtModifier: true, EnableNegativeOffset: true,
	})
	Expect(err).NotTo(HaveOccurred())
	defer func() { Expect(loader.Close()).To(Succeed()) }()
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc:    rules.EngineQueryFunc(loader.QueryEngine(), loader.Storage()),
		AppendableV2: loader.Storage(),
		Context:      context.Background(),
		NotifyFunc:   func(context.Context, string, ...*rules.Alert) {},
		Logger:       promslog.NewNopLogger(),
		Parser:       parser.NewParser(parser.Options{}),
	})
	groups, errs := manager.LoadGroups(time.Minute, labels.EmptyLabels(), "", nil, false, ruleFile)
	Expect(errs).To(BeEmpty())
	start := time.Unix(0, 0).UTC()
	var found []string
	for passed := time.Duration(0); passed <= at; passed += time.Minute {
		loader.WithSamplesTill(start.Add(passed), func(err error) { Expect(err).NotTo(HaveOccurred()) })
		for _, group := range groups {
			group.Eval(loader.Context(), start.Add(passed))
			for _, rule := range group.Rules() {
				Expect(rule.LastError()).NotTo(HaveOccurred(), rule.Name())
				alerting, ok := rule.(*rules.AlertingRule)
				if passed != at || !ok || rule.Name() != name {
					continue
				}
				for _, alert := range alerting.ActiveAlerts() {
					if alert.State == rules.StateFiring {
						found = append(found, alert.Labels.String())
					}
				}
			}
		}
	}
	return found
}

var _ = Describe("The alert rules", func() {
	raw, err := os.ReadFile(ruleTests)
	if err != nil {
		panic(err)
	}
	var file struct {
		Tests []ruleTest `json:"tests"`
	}
	if err := yaml.Unmarshal(raw, &file); err != nil {
		panic(err)
	}
	for _, test := range file.Tests {
		It("pass their own test: "+test.Name, func() {
			for _, want := range test.AlertRuleTest {
				expected := []string{}
				for _, alert := range want.ExpAlerts {
					alert.ExpLabels[labels.AlertName] = want.Alertname
					expected = append(expected, labels.FromMap(alert.ExpLabels).String())
				}
				Expect(test.firing(want.Alertname, time.Duration(want.EvalTime))).To(ConsistOf(expected),
					"%s at %s", want.Alertname, want.EvalTime)
			}
		})
	}

	It("are each tested and have a runbook, and are those of the PrometheusRule", func() {
		runbooks, err := os.ReadFile(repository + "/docs/runbooks.md")
		Expect(err).NotTo(HaveOccurred())
		tested := map[string]bool{}
		for _, test := range file.Tests {
			for _, alert := range test.AlertRuleTest {
				tested[alert.Alertname] = tested[alert.Alertname] || len(alert.ExpAlerts) > 0
			}
		}
		alerts := readRules()
		Expect(alerts).NotTo(BeEmpty())
		for _, alert := range alerts {
			Expect(tested).To(HaveKeyWithValue(alert.Alert, true))
			Expect(string(runbooks)).To(ContainSubstring("\n## " + alert.Alert + "\n"))
			Expect(alert.Annotations["runbook_url"]).To(HaveSuffix("/docs/runbooks.md#" + strings.ToLower(alert.Alert)))
			Expect(alert.Annotations["summary"]).NotTo(BeEmpty())
		}

		var plain, object map[string]any
		for path, into := range map[string]*map[string]any{
			ruleFile: &plain, repository + "/config/observability/prometheus_rule.yaml": &object,
		} {
			raw, err := os.ReadFile(path)
			Expect(err).NotTo(HaveOccurred())
			Expect(yaml.Unmarshal(raw, into)).To(Succeed())
		}
		Expect(object["spec"]).To(Equal(plain))
	})

	It("are part of a component of an install, with the dashboard and a ServiceMonitor", func(ctx context.Context) {
		directory, err := filepath.Abs(repository + "/config")
		Expect(err).NotTo(HaveOccurred())
		overlay, err := os.MkdirTemp(directory, "overlay-")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(os.RemoveAll, overlay)
		Expect(os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte(
			"apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"+
				"resources: [../default]\ncomponents: [../observability]\n"), 0o600)).To(Succeed())
		kubectl := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl")
		output, err := exec.CommandContext(ctx, kubectl, "kustomize", overlay).Output()
		Expect(err).NotTo(HaveOccurred())
		found := map[string]map[string]any{}
		for document := range strings.SplitSeq(string(output), "\n---\n") {
			var object map[string]any
			Expect(yaml.Unmarshal([]byte(document), &object)).To(Succeed())
			meta := object["metadata"].(map[string]any)
			found[fmt.Sprint(object["kind"], "/", meta["name"])] = object
		}
		for _, name := range []string{
			"ServiceMonitor/capstan", "PrometheusRule/capstan", "Service/capstan-metrics", "ConfigMap/capstan-dashboard",
		} {
			Expect(found).To(HaveKey(name))
			Expect(found[name]["metadata"]).To(HaveKeyWithValue("namespace", "capstan-system"))
		}
		pod := found["Deployment/capstan-manager"]["spec"].(map[string]any)["template"].(map[string]any)["metadata"]
		selector := found["Service/capstan-metrics"]["spec"].(map[string]any)["selector"].(map[string]any)
		for label, value := range selector {
			Expect(pod).To(HaveKeyWithValue("labels", HaveKeyWithValue(label, value)))
		}
	})
})
