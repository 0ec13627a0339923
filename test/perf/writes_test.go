package perf_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/config/crd"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
)

// profiles is a directory for a CPU profile of each API server.
var profiles = flag.String("profiles", "", "directory for CPU profiles of the API servers of BenchmarkWriteCosts")

// managerAccount is the account that the policies let write statuses and journal entries.
const managerAccount = "system:serviceaccount:capstan-system:capstan-manager"

// variant changes one thing about the API server or about the writes of a plain Turn.
type variant struct {
	// definitions changes the CustomResourceDefinitions.
	definitions func([]*apiextensionsv1.CustomResourceDefinition)
	// policies installs the ValidatingAdmissionPolicies.
	policies bool
	// entry changes the JournalEntry.
	entry func(map[string]any) error
}

// BenchmarkWriteCosts reports the API server's cost of the writes of plain Turns, with the manager off: processor
// time and memory for each Turn, and as ratios to those with the definitions as they are, on an API server each.
//
// Run it with the assets of the suites: go test ./test/perf -run '^$' -bench WriteCosts -benchtime 1x
func BenchmarkWriteCosts(b *testing.B) {
	recorder := newBenchServer(b)
	writes := recorder.recordTurn(b)
	baseline := map[string]float64{}
	for _, v := range []struct {
		name string
		variant
	}{
		{"as they are", variant{}},
		{"with the policies", variant{policies: true}},
		{"without CEL rules", variant{definitions: eachSchema(withoutRules)}},
		{"without schemas of statuses and entries", variant{definitions: eachSchema(withoutStatus)}},
		{"payloads as objects", variant{entry: plainPayload}},
	} {
		b.Run(strings.ReplaceAll(v.name, " ", "_"), func(b *testing.B) {
			s := newVariantServer(b, v.variant)
			replayed := v.change(b, writes)
			s.rate(b, s.replay(replayed)) // warms the API server up
			for b.Loop() {
				measured := s.measure(b, v.name, func() float64 { return s.rate(b, s.replay(replayed)) })
				if len(baseline) == 0 {
					maps.Copy(baseline, measured)
				}
				for unit, value := range measured {
					b.ReportMetric(value, unit)
					b.ReportMetric(value/baseline[unit], strings.TrimSuffix(unit, "/turn")+"-ratio")
				}
			}
		})
	}
}

// newVariantServer starts an API server with the definitions and policies of a variant.
func newVariantServer(b *testing.B, v variant) *benchServer {
	b.Helper()
	s := newBenchServer(b)
	definitions, err := crd.Definitions()
	if err != nil {
		b.Fatal(err)
	}
	if v.definitions != nil {
		v.definitions(definitions)
	}
	if _, err := envtest.InstallCRDs(s.config, envtest.CRDInstallOptions{CRDs: definitions}); err != nil {
		b.Fatal(err)
	}
	if v.policies {
		if err := capstantest.InstallPolicies(b.Context(), s.config); err != nil {
			b.Fatal(err)
		}
	}
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.space}}
	if err := s.client.Create(b.Context(), space); err != nil {
		b.Fatal(err)
	}
	manager := rest.CopyConfig(s.config)
	manager.Impersonate = rest.ImpersonationConfig{UserName: managerAccount, Groups: []string{"system:masters"}}
	if s.http, err = rest.HTTPClientFor(manager); err != nil {
		b.Fatal(err)
	}
	return s
}

// replay returns a run that makes the writes for each Turn.
func (s *benchServer) replay(writes []write) func(context.Context, []*v1alpha1.Session) error {
	return func(ctx context.Context, sessions []*v1alpha1.Session) error {
		return s.createTurns(ctx, sessions, writes)
	}
}

// change returns the writes of the variant.
func (v variant) change(b *testing.B, writes []write) []write {
	b.Helper()
	if v.entry == nil {
		return writes
	}
	var changed []write
	for _, w := range writes {
		if w.method == http.MethodPost {
			var entry map[string]any
			if err := json.Unmarshal(w.body, &entry); err != nil {
				b.Fatal(err)
			}
			if err := v.entry(entry); err != nil {
				b.Fatal(err)
			}
			var err error
			if w.body, err = json.Marshal(entry); err != nil {
				b.Fatal(err)
			}
		}
		changed = append(changed, w)
	}
	return changed
}

// plainPayload makes the payload of an entry an object, without compression.
func plainPayload(entry map[string]any) error {
	raw, err := json.Marshal(entry["spec"])
	if err != nil {
		return err
	}
	stored, err := format.FromJSON(raw)
	if err != nil {
		return err
	}
	plain, err := format.Unpack(stored)
	if err != nil {
		return err
	}
	if plain == stored {
		return errors.New("the entry is not compressed")
	}
	entry["spec"] = plain
	return nil
}

// eachSchema changes every schema.
func eachSchema(change func(*apiextensionsv1.JSONSchemaProps)) func([]*apiextensionsv1.CustomResourceDefinition) {
	return func(definitions []*apiextensionsv1.CustomResourceDefinition) {
		for _, definition := range definitions {
			for i := range definition.Spec.Versions {
				change(definition.Spec.Versions[i].Schema.OpenAPIV3Schema)
			}
		}
	}
}

// withoutRules removes the CEL rules of a schema.
func withoutRules(schema *apiextensionsv1.JSONSchemaProps) {
	schema.XValidations = nil
	for name, property := range schema.Properties {
		withoutRules(&property)
		schema.Properties[name] = property
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		withoutRules(schema.Items.Schema)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		withoutRules(schema.AdditionalProperties.Schema)
	}
}

// withoutStatus makes the status of an object, and an entry, an object with any fields.
func withoutStatus(schema *apiextensionsv1.JSONSchemaProps) {
	open := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)}
	if _, ok := schema.Properties["status"]; ok {
		schema.Properties["status"] = open
	}
	if _, ok := schema.Properties["spec"].Properties["ordinal"]; ok {
		schema.Properties["spec"] = open
	}
}

// measure returns the API server's cost of a Turn of a run, and the Turns per second.
func (s *benchServer) measure(b *testing.B, name string, run func() float64) map[string]float64 {
	b.Helper()
	before := s.usage(b)
	profiled := s.profile(b, name)
	rate := run()
	profiled()
	after := s.usage(b)
	turns := float64(benchClients * benchTurns)
	return map[string]float64{
		"turns/s":       rate,
		"cpu-ms/turn":   1000 * (after["process_cpu_seconds_total"] - before["process_cpu_seconds_total"]) / turns,
		"heap-KiB/turn": (after["go_memstats_heap_alloc_bytes"] - before["go_memstats_heap_alloc_bytes"]) / turns / 1024,
	}
}

// usage returns the metrics of the API server's process, after a garbage collection.
func (s *benchServer) usage(b *testing.B) map[string]float64 {
	b.Helper()
	s.get(b, "/debug/pprof/heap?gc=1")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(s.get(b, "/metrics")))
	if err != nil {
		b.Fatal(err)
	}
	usage := map[string]float64{}
	for _, name := range []string{
		"process_cpu_seconds_total", "go_memstats_heap_alloc_bytes", "apiserver_storage_size_bytes",
	} {
		metric := families[name].GetMetric()[0]
		usage[name] = metric.GetGauge().GetValue()
		if families[name].GetType() == dto.MetricType_COUNTER {
			usage[name] = metric.GetCounter().GetValue()
		}
	}
	return usage
}

// profile begins a CPU profile of five seconds, if one is asked for. The function that it returns waits for its end.
func (s *benchServer) profile(b *testing.B, name string) func() {
	if *profiles == "" {
		return func() {}
	}
	written := make(chan error, 1)
	go func() {
		path := filepath.Join(*profiles, strings.ReplaceAll(name, " ", "_")+".pprof")
		written <- os.WriteFile(path, s.get(b, "/debug/pprof/profile?seconds=5"), 0o600)
	}()
	return func() {
		if err := <-written; err != nil {
			b.Error(err)
		}
	}
}

// get returns the body of a response of the API server.
func (s *benchServer) get(b *testing.B, path string) []byte {
	b.Helper()
	request, err := http.NewRequestWithContext(
		b.Context(),
		http.MethodGet,
		strings.TrimSuffix(s.config.Host, "/")+path,
		nil,
	)
	if err != nil {
		b.Fatal(err)
	}
	response, err := s.http.Do(request)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %s", path, response.Status, body)
	}
	if err != nil {
		b.Fatal(err)
	}
	return body
}
