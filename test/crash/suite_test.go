// Package crash_test disturbs the real controllers: requests that fail in every way, watches that are late, double or
// broken, processes that die or are paused while another takes over or is elected, clocks that differ, and users who
// interfere at each request. Whatever happens, invariants hold at all times, and a conversation ends as it does
// undisturbed where its outcome does not depend on the time.
package crash_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"go.uber.org/zap/zapcore"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/controller"
	"github.com/capstan-dev/capstan/test/internal/suite"
)

func TestCrash(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Crash")
}

const (
	// sideBySide is how many runs are in progress at once.
	sideBySide = 16
	// defaultCells is how many cells a sample has, and databaseCells one with the journals in PostgreSQL.
	defaultCells  = 240
	databaseCells = 60
	// clocksApart is how far the clocks of two leaders are apart.
	clocksApart = 2 * time.Second
)

var (
	config  *rest.Config
	user    client.WithWatch
	seen    *observer
	tools   = &toolPlayers{}
	prompts = &promptCounter{}
	web     = newServer()
	pulse   = &heart{}
)

var _ = BeforeSuite(func() {
	log := logr.Discard()
	if os.Getenv("FAULT_LOG") != "" {
		log = zap.New(zap.WriteTo(os.Stderr), zap.UseDevMode(true), zap.StacktraceLevel(zapcore.PanicLevel))
	}
	ctrl.SetLogger(log)
	config = suite.Start().Config
	DeferCleanup(web.Close)
	config.QPS, config.Burst = -1, 0
	Expect(capstantest.Install(context.Background(), config)).To(Succeed())
	var err error
	user, err = client.NewWithWatch(config, client.Options{Scheme: controller.NewScheme()})
	Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	DeferCleanup(cancel)
	seen, err = observe(ctx, user)
	Expect(err).NotTo(HaveOccurred())
	Expect(pulse.start(ctx, user)).To(Succeed())
})

// process is a kit whose connection to the API server the test holds in its hands.
type process struct {
	*capstantest.Kit
	wire *wire
	// ahead is how far its clock is ahead.
	ahead time.Duration
}

// startProcess starts a kit. The one that plays the kubelet must be the only one that does. Its journals are in the API
// server, or in a database.
func startProcess(playsKubelet bool, ahead time.Duration, journals *database) *process {
	GinkgoHelper()
	p := &process{wire: newWire(), ahead: ahead}
	p.wire.meddle = meddle
	transport := p.wire.wrap
	if journals != nil {
		transport = func(next http.RoundTripper) http.RoundTripper { return p.wire.wrap(journals.wrap(next)) }
	}
	o := capstantest.Options{
		Jobs: tools.run, Transport: transport, NoJobPlayer: !playsKubelet, EgressAllow: loopback, EgressRoots: web.roots(),
		Prompts: func(request capstantest.Prompt) { prompts.see(p, request) },
	}
	if ahead > 0 {
		o.Clock = capstantest.NewClock(time.Now().Add(ahead))
	}
	var err error
	p.Kit, err = capstantest.Start(context.Background(), config, o)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(p.Stop()).To(Succeed()) })
	return p
}

// meddle changes an object as another client would, in a way that concerns no controller.
func meddle(ctx context.Context, resource, namespace, name string) error {
	var object client.Object
	switch resource {
	case "turns":
		object = &v1alpha1.Turn{}
	case "sessions":
		object = &v1alpha1.Session{}
	case "toolresults":
		object = &v1alpha1.ToolResult{}
	case "pods":
		object = &corev1.Pod{}
	case "jobs":
		object = &batchv1.Job{}
	default:
		return fmt.Errorf("no client changes %s", resource)
	}
	patch := func() client.Patch {
		touched := fmt.Sprintf(`{"metadata":{"annotations":{"example.com/touched":%q}}}`, time.Now().Format(time.RFC3339Nano))
		return client.RawPatch(types.MergePatchType, []byte(touched))
	}
	if name == "" {
		var list batchv1.JobList
		err := user.List(ctx, &list, client.InNamespace(namespace))
		for i := range list.Items {
			err = errors.Join(err, client.IgnoreNotFound(user.Patch(ctx, &list.Items[i], patch())))
		}
		return err
	}
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if err := user.Get(ctx, key, object); err != nil {
		return err
	}
	return user.Patch(ctx, object, patch())
}

// all does something for each, several at a time.
func all[T any](each []T, do func(T)) {
	places := make(chan struct{}, sideBySide)
	var group sync.WaitGroup
	for _, one := range each {
		places <- struct{}{}
		group.Go(func() {
			defer func() { <-places }()
			do(one)
		})
	}
	group.Wait()
}

// setting is a number from the environment.
func setting(name string, otherwise int64) int64 {
	GinkgoHelper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	Expect(err).NotTo(HaveOccurred(), name)
	return n
}

// tally counts cells, and collects what is wrong.
type tally struct {
	mu            sync.Mutex
	cells, struck map[string]int
	byScenario    map[string]int
	// again counts cells that were played more than once until their faults came, and missed names those whose faults
	// never came.
	again  int
	missed []string
	errs   []error
}

// add counts a cell whose faults came in a try, or, with 0, never.
func (t *tally) add(c cell, try int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cells[c.kind()]++
	t.byScenario[scenarios[c.scenario].name]++
	if try > 0 {
		t.struck[c.kind()]++
	} else {
		t.missed = append(t.missed, c.String())
		verbose("MISSED", c)
	}
	if try > 1 {
		t.again++
		verbose("came in try", try, c)
	}
	if err != nil {
		err = fmt.Errorf("%s:\n%w", c, err)
		t.errs = append(t.errs, err)
		verbose("WRONG", err)
	}
}

// verbose prints progress at once if FAULT_VERBOSE is set.
func verbose(what ...any) {
	if os.Getenv("FAULT_VERBOSE") != "" {
		fmt.Println(what...)
	}
}

// histogram is how many cells of each kind there were, and in how many all faults came: they changed the outcome of a
// request, or the way of an event.
func (t *tally) histogram() string {
	text := fmt.Sprintf("%8s %8s  %s\n", "cells", "struck", "fault")
	cells, struck := 0, 0
	for _, kind := range slices.Sorted(maps.Keys(t.cells)) {
		text += fmt.Sprintf("%8d %8d  %s\n", t.cells[kind], t.struck[kind], kind)
		cells, struck = cells+t.cells[kind], struck+t.struck[kind]
	}
	text += fmt.Sprintf("%8d %8d  in all\n\n%8s  %s\n", cells, struck, "cells", "scenario")
	for _, name := range slices.Sorted(maps.Keys(t.byScenario)) {
		text += fmt.Sprintf("%8d  %s\n", t.byScenario[name], name)
	}
	return text
}

var _ = Describe("Faults", func() {
	It("break no invariant and change no outcome", func(ctx context.Context) {
		playAll(ctx, nil, setting("FAULT_SEED", GinkgoRandomSeed()), defaultSize(defaultCells))
	})

	It("break no invariant and change no outcome with the journals in PostgreSQL", func(ctx context.Context) {
		seed := setting("FAULT_SEED", GinkgoRandomSeed())
		journals := startDatabase(ctx, seed)
		playAll(ctx, journals, seed, defaultSize(databaseCells))
		journals.expectWhole()
	})
})

// playAll plays a sample of the cells.
func playAll(ctx context.Context, journals *database, seed, sampled int64) {
	GinkgoHelper()
	began := time.Now()
	size := int(setting("FAULT_CELLS", sampled))
	s := &stage{
		first: startProcess(true, 0, journals), second: startProcess(false, 0, journals),
		ahead: startProcess(false, clocksApart, journals), lossy: startProcess(false, 0, journals),
	}
	t := &tally{cells: map[string]int{}, struck: map[string]int{}, byScenario: map[string]int{}}

	By("running each scenario undisturbed")
	base := s.measure(ctx, expression("FAULT_SCENARIOS"))
	for i, b := range base {
		if b.err != nil {
			t.errs = append(t.errs, fmt.Errorf("undisturbed | %s:\n%w", scenarios[i].name, b.err))
			verbose("WRONG undisturbed |", scenarios[i].name, b.err)
		}
		if len(b.writes) == 0 {
			continue
		}
		verbose("measured", scenarios[i].name, len(b.writes), "writes,", b.acted, "before the interference,",
			len(b.reads), "reads", b.writes)
	}

	every := cells(base)
	chosen := focused(every)
	if size > 0 {
		chosen = sample(chosen, size, uint64(seed))
	}
	chosen = slices.Repeat(chosen, int(setting("FAULT_REPEAT", 1)))
	verbose(fmt.Sprintf("seed %d: %d of %d cells, measured in %s",
		seed, len(chosen), len(every), time.Since(began).Round(time.Second)))
	all(chosen, func(c cell) {
		try, err := s.playUntilBefallen(ctx, c, base[c.scenario])
		t.add(c, try, err)
	})
	if journals == nil && os.Getenv("FAULT_SCENARIOS") == "" && os.Getenv("FAULT_FOCUS") == "" {
		By("breaking the manager on purpose")
		t.errs = append(t.errs, s.catchBreaks(ctx, base))
	}

	AddReportEntry("Faults", ReportEntryVisibilityAlways, fmt.Sprintf(
		"seed %d: %d of %d cells in %s (%d beats), %d scenarios; the faults of %d came in a later try, of %d never; "+
			"the longest time without progress was %s\n%s",
		seed, len(chosen), len(every), time.Since(began).Round(time.Second), pulse.now(), len(scenarios), t.again,
		len(t.missed), seen.longestWait(), t.histogram(),
	))
	Expect(errors.Join(t.errs...)).NotTo(HaveOccurred())
	t.expectBefallen()
}

// expression is a regular expression from the environment; without it, one that matches all.
func expression(name string) *regexp.Regexp {
	GinkgoHelper()
	e, err := regexp.Compile(os.Getenv(name))
	Expect(err).NotTo(HaveOccurred(), name)
	return e
}

// defaultSize is the number of cells without FAULT_CELLS: all that FAULT_FOCUS matches.
func defaultSize(sampled int64) int64 {
	if os.Getenv("FAULT_FOCUS") != "" {
		return 0
	}
	return sampled
}

// focused are the cells that FAULT_FOCUS matches; without it, all.
func focused(every []cell) []cell {
	GinkgoHelper()
	focus := expression("FAULT_FOCUS")
	return slices.DeleteFunc(slices.Clone(every), func(c cell) bool { return !focus.MatchString(c.String()) })
}

// expectBefallen expects that the faults came: a cell whose faults stay away shows nothing.
func (t *tally) expectBefallen() {
	GinkgoHelper()
	Expect(t.missed).To(BeEmpty(), "cells whose faults did not come in %d tries", maxTries)
}
