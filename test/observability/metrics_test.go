package observability_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/teststorage"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/test/internal/suite"
)

// interval is the time between two scrapes, as Prometheus sees it.
const interval = 30 * time.Second

// dashboard is the part of a dashboard that is checked.
type dashboard struct {
	Panels []struct {
		ID      int
		Type    string
		Title   string
		Targets []struct{ Expr string }
		GridPos struct{ X, Y, W, H int }
	}
}

func readDashboard() dashboard {
	GinkgoHelper()
	raw, err := os.ReadFile(repository + "/config/observability/dashboard.json")
	Expect(err).NotTo(HaveOccurred())
	var d dashboard
	Expect(json.Unmarshal(raw, &d)).To(Succeed())
	return d
}

// readRules parses the file with the alert rules as Prometheus does.
func readRules() []rulefmt.Rule {
	GinkgoHelper()
	groups, errs := rulefmt.ParseFile(ruleFile, false, model.UTF8Validation, parser.NewParser(parser.Options{}),
		promslog.NewNopLogger())
	Expect(errs).To(BeEmpty())
	var all []rulefmt.Rule
	for _, group := range groups.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

// database is a database of Prometheus with its engine.
type database struct {
	storage *teststorage.TestStorage
	engine  *promql.Engine
	names   map[string]bool
}

func newDatabase() *database {
	GinkgoHelper()
	storage, err := teststorage.NewWithError()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(storage.Close)
	return &database{
		storage: storage, names: map[string]bool{}, engine: promql.NewEngine(promql.EngineOpts{
			MaxSamples: 1e6, Timeout: time.Minute, EnableAtModifier: true, EnableNegativeOffset: true,
		}),
	}
}

// add adds a scrape, with the labels that Prometheus adds in a cluster.
func (d *database) add(ctx context.Context, scraped []byte, at time.Time) {
	GinkgoHelper()
	p, err := textparse.New(scraped, "text/plain; version=0.0.4", labels.NewSymbolTable(), textparse.ParserOptions{})
	Expect(err).NotTo(HaveOccurred())
	appender := d.storage.Appender(ctx)
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		Expect(err).NotTo(HaveOccurred())
		if entry != textparse.EntrySeries {
			continue
		}
		_, _, value := p.Series()
		var series labels.Labels
		p.Labels(&series)
		d.names[series.Get(model.MetricNameLabel)] = true
		full := labels.NewBuilder(series).Set("job", "capstan-metrics").Set("pod", "capstan-manager-0").Labels()
		_, err = appender.Append(0, full, at.UnixMilli(), value)
		Expect(err).NotTo(HaveOccurred())
	}
	Expect(appender.Commit()).To(Succeed())
}

// query returns the result of a query.
func (d *database) query(ctx context.Context, text string, at time.Time) promql.Vector {
	GinkgoHelper()
	q, err := d.engine.NewInstantQuery(ctx, d.storage, nil, text, at)
	Expect(err).NotTo(HaveOccurred(), text)
	defer q.Close()
	vector, err := q.Exec(ctx).Vector()
	Expect(err).NotTo(HaveOccurred(), text)
	return vector
}

// selected are the names of the metrics that a query selects.
func selected(text string) []string {
	GinkgoHelper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	Expect(err).NotTo(HaveOccurred(), text)
	var names []string
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok {
			names = append(names, selector.Name)
		}
		return nil
	})
	return names
}

// stage creates the objects of a Session whose model calls a tool, and has a price.
func (m *manager) stage(ctx context.Context) {
	GinkgoHelper()
	scripted := builder.Model("scripted").Simulated(builder.Script("It is noon.", builder.Calls("get_current_time"))).Obj()
	scripted.Spec.Price = &v1alpha1.ModelPrice{
		Currency: "USD", InputPerMillionTokens: "1000", OutputPerMillionTokens: "1000",
	}
	session := builder.Session("demo").Obj()
	session.Spec.Capabilities = []v1alpha1.CapabilityReference{{Builtin: "current_time"}}
	for _, object := range []metav1.Object{scripted, session} {
		object.SetNamespace(namespace)
	}
	suite.Create(ctx, m.admin, scripted, builder.Harness("base").In(namespace).Model("scripted").Obj(), session)
}

var _ = Describe("The metrics of the manager", Ordered, func() {
	var (
		scrapes *database
		server  *prometheus
		now     = time.Now()
	)

	BeforeAll(func(ctx context.Context) {
		m := start(ctx)
		server = startPrometheus(ctx, m)
		scrapes = newDatabase()
		m.stage(ctx)
		for i, turn := range []string{"demo-1", "demo-2", "demo-3"} {
			m.run(ctx, turn)
			text, err := m.scrape(ctx)
			Expect(err).NotTo(HaveOccurred())
			scrapes.add(ctx, text, now.Add(time.Duration(i)*interval))
			Eventually(ctx, func(ctx context.Context) ([]string, error) {
				return server.query(ctx, "sum(capstan_turns_finished_total)")
			}).Should(Equal([]string{strconv.Itoa(i + 1)}))
		}
		now = now.Add(2 * interval)
	})

	It("give each query of the dashboard data", func(ctx context.Context) {
		queries := 0
		for _, panel := range readDashboard().Panels {
			if panel.Type != "row" {
				Expect(panel.Targets).NotTo(BeEmpty(), panel.Title)
			}
			for _, target := range panel.Targets {
				queries++
				text := strings.ReplaceAll(target.Expr, "$__rate_interval", "2m")
				for _, name := range selected(text) {
					Expect(scrapes.names).To(HaveKey(name), "%s: %s", panel.Title, text)
				}
				Expect(scrapes.query(ctx, text, now)).NotTo(BeEmpty(), "%s: %s", panel.Title, text)
			}
		}
		Expect(queries).To(BeNumerically(">", 15))
	})

	It("give each query of the dashboard data in a server that scrapes the manager", func(ctx context.Context) {
		for _, panel := range readDashboard().Panels {
			for _, target := range panel.Targets {
				text := strings.ReplaceAll(target.Expr, "$__rate_interval", "1m")
				values, err := server.query(ctx, text)
				Expect(err).NotTo(HaveOccurred(), panel.Title)
				Expect(slices.DeleteFunc(values, func(v string) bool { return v == "NaN" })).NotTo(BeEmpty(),
					"%s: %s", panel.Title, text)
			}
		}
		var names []string
		Eventually(ctx, func(ctx context.Context) ([]rule, error) { return server.rules(ctx) }).
			Should(And(Not(BeEmpty()), HaveEach(And(HaveField("Health", "ok"), HaveField("State", "inactive")))))
		evaluated, err := server.rules(ctx)
		Expect(err).NotTo(HaveOccurred())
		for _, r := range evaluated {
			names = append(names, r.Name)
		}
		var written []string
		for _, r := range readRules() {
			written = append(written, r.Alert)
		}
		Expect(names).To(Equal(written))
	})

	It("answer the queries of the runbooks", func(ctx context.Context) {
		queries := blocks("runbooks.md", "promql")
		Expect(queries).NotTo(BeEmpty())
		for _, text := range queries {
			_, err := server.query(ctx, text)
			Expect(err).NotTo(HaveOccurred())
			for _, name := range selected(text) {
				Expect(scrapes.names).To(HaveKey(name), text)
			}
		}
	})

	It("are those that the alert rules select, and none of the alerts fires after some Turns", func(ctx context.Context) {
		for _, rule := range readRules() {
			for _, name := range selected(rule.Expr) {
				Expect(scrapes.names).To(HaveKey(name), rule.Alert)
			}
			Expect(scrapes.query(ctx, rule.Expr, now)).To(BeEmpty(), rule.Alert)
		}
	})
})
