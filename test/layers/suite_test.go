// Package layers_test runs the controllers of Harness, Agent, Model and Tool together against an API server.
package layers_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller"
	"github.com/capstan-dev/capstan/internal/controller/agent"
	"github.com/capstan-dev/capstan/internal/controller/capability"
	"github.com/capstan-dev/capstan/internal/controller/fieldindex"
	"github.com/capstan-dev/capstan/internal/controller/harness"
	modelcontroller "github.com/capstan-dev/capstan/internal/controller/model"
	"github.com/capstan-dev/capstan/internal/controller/tool"
	"github.com/capstan-dev/capstan/internal/controller/wake"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/simulator"
	"github.com/capstan-dev/capstan/test/internal/suite"
)

var (
	// direct reads from the API server, past every cache.
	direct client.Client
	// calls counts what the controllers do.
	calls counter
	// reconcilers are the running ones, by kind.
	reconcilers map[string]reconcile.Reconciler
)

func TestLayers(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Layers")
}

var _ = BeforeSuite(func() {
	suite.Configure(suite.Logger(), 20*time.Second, suite.Polling)

	scheme := controller.NewScheme()
	config := suite.StartWithKinds().Config
	config.QPS = -1
	var err error
	direct, err = client.New(config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	startManager(config, scheme)
})

// startManager runs the five controllers until the suite ends.
func startManager(config *rest.Config, scheme *runtime.Scheme) {
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme,
		Metrics: server.Options{BindAddress: "0"},
		NewClient: func(config *rest.Config, options client.Options) (client.Client, error) {
			c, err := client.NewWithWatch(config, options)
			if err != nil {
				return nil, err
			}
			return interceptor.NewClient(c, calls.funcs()), nil
		},
	})
	Expect(err).NotTo(HaveOccurred())

	c := manager.GetClient()
	h := &harness.Reconciler{Client: c, Clock: time.Now}
	a := &agent.Reconciler{Client: c, Clock: time.Now}
	m := &modelcontroller.Reconciler{
		Client:  c,
		Clock:   time.Now,
		Wakes:   &wake.Source{},
		Drivers: model.Registry{v1alpha1.ModelProviderSimulated: simulator.Factory},
	}
	t := &tool.Reconciler{Client: c, Clock: time.Now, Schemas: objectSchemas{}}
	b := &capability.Reconciler{Client: c, Clock: time.Now}
	reconcilers = map[string]reconcile.Reconciler{"Harness": h, "Agent": a, "Model": m, "Tool": t, "Capability": b}
	Expect(fieldindex.SetUp(context.Background(), manager.GetFieldIndexer())).To(Succeed())
	for _, reconciler := range []interface{ SetupWithManager(ctrl.Manager) error }{h, a, m, t, b} {
		Expect(reconciler.SetupWithManager(manager)).To(Succeed())
	}

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	DeferCleanup(func() {
		cancel()
		Eventually(ended).Should(Receive(BeNil()))
	})
}

// objectSchemas accepts every schema of type object.
type objectSchemas struct{}

func (objectSchemas) CheckSchema(schema []byte) error {
	var parts struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(schema, &parts); err != nil {
		return err
	}
	if parts.Type != "object" {
		return errors.New("the type is not object")
	}
	return nil
}

// counter counts the status writes and, by key, the reads of the controllers.
type counter struct {
	mutex  sync.Mutex
	writes int
	reads  map[client.ObjectKey]int
}

func (c *counter) funcs() interceptor.Funcs {
	return interceptor.Funcs{
		Get: func(
			ctx context.Context, next client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption,
		) error {
			c.mutex.Lock()
			if c.reads == nil {
				c.reads = map[client.ObjectKey]int{}
			}
			c.reads[key]++
			c.mutex.Unlock()
			return next.Get(ctx, key, o, opts...)
		},
		SubResourcePatch: func(
			ctx context.Context, next client.Client, sub string, o client.Object, patch client.Patch,
			opts ...client.SubResourcePatchOption,
		) error {
			c.mutex.Lock()
			c.writes++
			c.mutex.Unlock()
			return next.SubResource(sub).Patch(ctx, o, patch, opts...)
		},
	}
}

func (c *counter) written() int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.writes
}

// readsOf counts how often the controllers asked for an object of the name, of whatever kind.
func (c *counter) readsOf(o client.Object) int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.reads[client.ObjectKeyFromObject(o)]
}

// namespace makes a new one.
func namespace(ctx context.Context) string {
	GinkgoHelper()
	return suite.Namespace(ctx, direct, "layers-")
}
