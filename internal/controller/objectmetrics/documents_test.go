package objectmetrics_test

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	_ "github.com/capstan-dev/capstan/internal/controller/budget"       // registers its metrics
	_ "github.com/capstan-dev/capstan/internal/controller/egresspolicy" // registers its metric
	_ "github.com/capstan-dev/capstan/internal/controller/lease"        // registers its metrics
	"github.com/capstan-dev/capstan/internal/controller/mcpserver"
	"github.com/capstan-dev/capstan/internal/controller/objectmetrics"
	_ "github.com/capstan-dev/capstan/internal/controller/session" // registers its metrics
	"github.com/capstan-dev/capstan/internal/controller/shares"
	"github.com/capstan-dev/capstan/internal/controller/stores"
	_ "github.com/capstan-dev/capstan/internal/controller/turn" // registers its metrics
	"github.com/capstan-dev/capstan/internal/version"
)

// descriptions returns the names of the metrics of a registry.
func descriptions(t *testing.T) []string {
	t.Helper()
	described := make(chan *prometheus.Desc, 4096)
	metrics.Registry.(prometheus.Collector).Describe(described)
	(&objectmetrics.Collector{}).Describe(described)
	(&mcpserver.Collector{}).Describe(described)
	(&shares.Collector{}).Describe(described)
	stores.Connections{}.Describe(described)
	version.Get().Metric().Describe(described)
	close(described)
	name := regexp.MustCompile(`fqName: "(capstan_[a-z_]+)"`)
	var names []string
	for desc := range described {
		if found := name.FindStringSubmatch(desc.String()); found != nil {
			names = append(names, found[1])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func TestThePageAboutOperationsNamesEveryMetric(t *testing.T) {
	page, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := regexp.MustCompile("`(capstan_[a-z_]+)").FindAllStringSubmatch(string(page), -1)
	var names []string
	for _, found := range documented {
		names = append(names, found[1])
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if there := descriptions(t); len(there) < 10 || !slices.Equal(there, names) {
		t.Errorf("there are\n%v\ndocumented are\n%v", there, names)
	}
}
