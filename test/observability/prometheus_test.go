package observability_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"
)

// program returns the path of a program of Prometheus: on a machine without it, of Debian's package.
func program(ctx context.Context, name string) string {
	GinkgoHelper()
	command := exec.CommandContext(ctx, repository+"/hack/prometheus.sh")
	command.Stderr = GinkgoWriter
	directory, err := command.Output()
	Expect(err).NotTo(HaveOccurred())
	return filepath.Join(strings.TrimSpace(string(directory)), name)
}

// prometheus is a server of Prometheus that scrapes the manager, as the ServiceMonitor describes it, with the alert
// rules.
type prometheus struct{ url string }

func startPrometheus(ctx context.Context, m *manager) *prometheus {
	GinkgoHelper()
	raw, err := os.ReadFile(repository + "/config/observability/service_monitor.yaml")
	Expect(err).NotTo(HaveOccurred())
	var monitor struct {
		Spec struct {
			Endpoints []struct {
				Scheme    string
				TLSConfig struct{ InsecureSkipVerify bool }
			}
		}
	}
	Expect(yaml.Unmarshal(raw, &monitor)).To(Succeed())
	endpoint := monitor.Spec.Endpoints[0]
	rules, err := filepath.Abs(ruleFile)
	Expect(err).NotTo(HaveOccurred())
	config, err := yaml.Marshal(map[string]any{
		"global":     map[string]any{"scrape_interval": "500ms", "evaluation_interval": "500ms"},
		"rule_files": []string{rules},
		"scrape_configs": []any{map[string]any{
			"job_name": "capstan-metrics", "scheme": endpoint.Scheme,
			"tls_config":     map[string]any{"insecure_skip_verify": endpoint.TLSConfig.InsecureSkipVerify},
			"authorization":  map[string]any{"credentials": m.token},
			"static_configs": []any{map[string]any{"targets": []string{m.metrics}}},
		}},
	})
	Expect(err).NotTo(HaveOccurred())
	directory, address := GinkgoT().TempDir(), free()
	file := filepath.Join(directory, "prometheus.yaml")
	Expect(os.WriteFile(file, config, 0o600)).To(Succeed())

	running, stop := context.WithCancel(context.Background())
	process := exec.CommandContext(running, program(ctx, "prometheus"), "--config.file="+file,
		"--storage.tsdb.path="+filepath.Join(directory, "data"), "--web.listen-address="+address, "--log.level=warn")
	process.Stdout, process.Stderr = GinkgoWriter, GinkgoWriter
	Expect(process.Start()).To(Succeed())
	DeferCleanup(func() { stop(); _ = process.Wait() })
	p := &prometheus{url: "http://" + address}
	Eventually(ctx, func(ctx context.Context) ([]string, error) { return p.query(ctx, "up == 1") }).ShouldNot(BeEmpty())
	return p
}

// get reads what the server returns for a path.
func (p *prometheus) get(ctx context.Context, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var envelope struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(response.Body).Decode(&envelope); err != nil {
		return fmt.Errorf("%s: %w", response.Status, err)
	}
	if envelope.Status != "success" {
		return fmt.Errorf("%s: %s", response.Status, envelope.Error)
	}
	return json.Unmarshal(envelope.Data, into)
}

// query returns the values that a query has now.
func (p *prometheus) query(ctx context.Context, text string) ([]string, error) {
	var found struct{ Result []struct{ Value []any } }
	if err := p.get(ctx, "/api/v1/query?query="+url.QueryEscape(text), &found); err != nil {
		return nil, fmt.Errorf("%s: %w", text, err)
	}
	var values []string
	for _, series := range found.Result {
		values = append(values, fmt.Sprint(series.Value[1]))
	}
	return values, nil
}

// blocks returns the blocks of code of a page that are in a language.
func blocks(page, language string) (texts []string) {
	GinkgoHelper()
	raw, err := os.ReadFile(repository + "/docs/" + page)
	Expect(err).NotTo(HaveOccurred())
	for _, block := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllSubmatch(raw, -1) {
		texts = append(texts, string(block[1]))
	}
	return texts
}

// rule is an alert rule as the server evaluates it.
type rule struct {
	Name, Health, State, LastError string
}

// rules returns those that the server has evaluated.
func (p *prometheus) rules(ctx context.Context) ([]rule, error) {
	var found struct{ Groups []struct{ Rules []rule } }
	err := p.get(ctx, "/api/v1/rules", &found)
	var all []rule
	for _, group := range found.Groups {
		all = append(all, group.Rules...)
	}
	return all, err
}

var _ = Describe("Debian's promtool", func() {
	DescribeTable("accepts the alert rules", func(ctx context.Context, arguments ...string) {
		output, err := exec.CommandContext(ctx, program(ctx, "promtool"), arguments...).CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(output))
		Expect(string(output)).To(ContainSubstring("SUCCESS"))
	},
		Entry("as they are", "check", "rules", "--lint-fatal", ruleFile),
		Entry("by their tests", "test", "rules", ruleTests),
	)
})
