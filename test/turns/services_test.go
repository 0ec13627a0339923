package turns_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/internal/testing/modelserver"
	servers "github.com/capstan-dev/capstan/internal/testing/site"
)

// behindService creates a Service with a pod whose address is that of a server of the spec, and returns the pod.
func behindService(ctx context.Context, namespace, name string, port int32, server *httptest.Server) *corev1.Pod {
	GinkgoHelper()
	address := netip.MustParseAddrPort(server.Listener.Addr().String())
	labels := map[string]string{"app": name}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-0", Labels: labels},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "server", Image: "example.org/server:1",
			Ports: []corev1.ContainerPort{{Name: "serving", ContainerPort: int32(address.Port())}},
		}}},
	}
	create(ctx, pod, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.ServiceSpec{
			Selector: labels, Ports: []corev1.ServicePort{{Port: port, TargetPort: intstr.FromString("serving")}},
		},
	})
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, HostIP: "192.0.2.1", HostIPs: []corev1.HostIP{{IP: "192.0.2.1"}},
		PodIP: address.Addr().String(), PodIPs: []corev1.PodIP{{IP: address.Addr().String()}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
	Expect(kit.Client.Status().Update(ctx, pod)).To(Succeed())
	return pod
}

// newPlainServer starts a server without encryption, which ends with the spec.
func newPlainServer(handler http.Handler) *httptest.Server {
	server := httptest.NewServer(handler)
	DeferCleanup(func() {
		// The manager may still listen to the server.
		server.CloseClientConnections()
		server.Close()
	})
	return server
}

// askModel runs a Turn with a Model of the namespace and a Job tool, and returns the Turn's name for kit.
func askModel(ctx context.Context, namespace, model string) {
	GinkgoHelper()
	jobs.In(namespace, func(capstantest.Call) (stdout, stderr string, exit int) { return "21 degrees", "", 0 })
	create(ctx,
		builder.JobTool("weather", v1alpha1.SideEffectPure).In(namespace).Obj(),
		builder.Harness("base").In(namespace).Model(model).Tools("weather").Obj(),
		builder.Session("demo").In(namespace).Obj(),
		builder.Turn("demo-1").In(namespace).Input("Hello").Obj(),
	)
}

// recipe is the manifest of a Model in the document about models, for a namespace.
func recipe(namespace, model string) []byte {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "models.md"))
	Expect(err).NotTo(HaveOccurred())
	for _, block := range yamlBlock.FindAllSubmatch(text, -1) {
		if bytes.Contains(block[1], []byte("kind: Model\nmetadata: {name: "+model+"}")) {
			return bytes.ReplaceAll(block[1], []byte("team-a"), []byte(namespace))
		}
	}
	Fail("the document has no Model " + model)
	return nil
}

var _ = Describe("A Model that is served in the cluster", func() {
	for model, test := range map[string]struct {
		port    int32
		handler http.Handler
	}{
		"ollama": {11434, modelserver.Ollama("qwen3:8b")},
		"vllm":   {8000, modelserver.VLLM("token-abc123", true, "Qwen/Qwen3-8B")},
	} {
		It("is called as the document describes: "+model, func(ctx context.Context) {
			namespace := emptyNamespace(ctx)
			paths := &atomic.Pointer[string]{}
			behindService(ctx, namespace, model, test.port, newPlainServer(
				http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					asked := r.Host + r.URL.Path
					paths.Store(&asked)
					test.handler.ServeHTTP(w, r)
				})))
			apply(ctx, namespace, recipe(namespace, model))
			askModel(ctx, namespace, model)
			turn := answered(ctx, namespace)
			Expect(turn.Status.Output).To(Equal("Good morning."))
			Expect(turn.Status.Summary.Calls).To(Equal("1/1"))
			Expect(*paths.Load()).To(HavePrefix(model + "." + namespace + ".svc:"))
			Expect(*paths.Load()).To(HaveSuffix("/v1/chat/completions"))
		})
	}

	It("is probed when that is requested, and no more often", func(ctx context.Context) {
		namespace := emptyNamespace(ctx)
		probes := &atomic.Int64{}
		ollama := modelserver.Ollama("qwen3:8b")
		behindService(ctx, namespace, "ollama", 11434, newPlainServer(
			http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				probes.Add(1)
				ollama.ServeHTTP(w, r)
			})))
		apply(ctx, namespace, recipe(namespace, "probed"))
		model := &v1alpha1.Model{}
		reachable := func() (*metav1.Condition, error) {
			err := kit.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "probed"}, model)
			return meta.FindStatusCondition(model.Status.Conditions, v1alpha1.ConditionReachable), err
		}
		Eventually(reachable).Should(HaveField("Reason", v1alpha1.ReasonProbeSucceeded))
		changed := client.MergeFrom(model.DeepCopy())
		model.Labels = map[string]string{"a": "b"}
		Expect(kit.Client.Patch(ctx, model, changed)).To(Succeed())
		askModel(ctx, namespace, "probed")
		Expect(answered(ctx, namespace).Status.Output).To(Equal("Good morning."))
		Expect(probes.Load()).To(BeEquivalentTo(3), "one probe and two calls of the Turn")
	})

	It("is called over TLS by the name of its Service, with certificates of the namespace", func(ctx context.Context) {
		namespace := emptyNamespace(ctx)
		authority, server := newServiceSite("gateway."+namespace+".svc", modelserver.VLLM("s3cr3t-key", true, "team-default"))
		behindService(ctx, namespace, "gateway", 443, server)
		apply(ctx, namespace, recipe(namespace, "gateway"))
		create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "gateway"},
			StringData: map[string]string{"api-key": "s3cr3t-key"},
		})
		Eventually(func() (string, error) {
			m := &v1alpha1.Model{}
			err := kit.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "gateway"}, m)
			if ready := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
				return ready.Reason, err
			}
			return "", err
		}).Should(Equal(v1alpha1.ReasonCABundleMissing))
		create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "gateway-ca"},
			Data:       map[string]string{"ca.crt": string(authority)},
		})
		askModel(ctx, namespace, "gateway")
		Expect(answered(ctx, namespace).Status.Output).To(Equal("Good morning."))
	})

	It("fails with the reason where it is not served by a pod of the namespace", func(ctx context.Context) {
		received := &atomic.Int64{}
		server := newPlainServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { received.Add(1) }))
		for want, change := range map[string]func(namespace string, pod *corev1.Pod){
			"has the type ExternalName": func(namespace string, _ *corev1.Pod) {
				service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "ollama"}}
				Expect(kit.Client.Delete(ctx, service)).To(Succeed())
				create(ctx, &corev1.Service{
					ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "ollama"},
					Spec: corev1.ServiceSpec{
						Type: corev1.ServiceTypeExternalName, ExternalName: "kubernetes.default.svc.cluster.local",
					},
				})
			},
			"no pod that is Ready": func(_ string, pod *corev1.Pod) {
				pod.Status.Conditions[0].Status = corev1.ConditionFalse
				Expect(kit.Client.Status().Update(ctx, pod)).To(Succeed())
			},
			"not on the network of its node": func(_ string, pod *corev1.Pod) {
				pod.Status.HostIP, pod.Status.HostIPs = pod.Status.PodIP, []corev1.HostIP{{IP: pod.Status.PodIP}}
				Expect(kit.Client.Status().Update(ctx, pod)).To(Succeed())
			},
		} {
			namespace := emptyNamespace(ctx)
			change(namespace, behindService(ctx, namespace, "ollama", 11434, server))
			apply(ctx, namespace, recipe(namespace, "ollama"))
			askModel(ctx, namespace, "ollama")
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(HaveField("Status.Error", Not(BeNil())))
			turn, err := kit.Turn(ctx, namespace, "demo-1")()
			Expect(err).NotTo(HaveOccurred())
			Expect(turn.Status.Error.Fields["problem"]).To(ContainSubstring(want))
		}
		Expect(received.Load()).To(BeZero())
	})
})

var _ = Describe("A tool that is served in the cluster", func() {
	It("is called at its Service, by HTTP and by MCP", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("Told: {{tool:stock}} {{tool:mcp_tools__echo}}",
			builder.Calls("stock", "mcp_tools__echo")))
		plain := newPlainServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte("12 of " + r.URL.Path + " at " + strings.Split(r.Host, ".")[0]))
		}))
		behindService(ctx, namespace, "stock", 80, plain)
		handler := servers.MCPHandler(servers.Stateless, servers.Echo("echo"))
		behindService(ctx, namespace, "mcp", 8080, newPlainServer(
			http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				// On an address of this host the SDK's server serves no other name.
				r.Host = "localhost"
				handler.ServeHTTP(w, r)
			})))
		tool := builder.HTTPTool("stock", v1alpha1.SideEffectPure, "").In(namespace).Obj()
		tool.Spec.HTTP.ServiceRef = &v1alpha1.ServiceReference{Name: "stock", Port: 80, Path: "/v1/stock"}
		create(ctx, tool, &v1alpha1.MCPServer{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tools"},
			Spec:       v1alpha1.MCPServerSpec{ServiceRef: &v1alpha1.ServiceReference{Name: "mcp", Port: 8080, Path: "/mcp"}},
		})
		session := builder.Session("demo").In(namespace).Obj()
		session.Spec.Tools = []v1alpha1.LocalReference{{Name: "stock"}}
		session.Spec.MCPServers = []v1alpha1.LocalReference{{Name: "tools"}}
		create(ctx, session, builder.Turn("demo-1").In(namespace).Input("Ask").Obj())
		Expect(answered(ctx, namespace).Status.Output).To(Equal("Told: 12 of /v1/stock at stock {}"))
	})
})
