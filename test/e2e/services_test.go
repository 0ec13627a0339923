//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// modelPod is a pod with a server of models, which listens on a port of that name.
func modelPod(namespace, personality string, port int32) *corev1.Pod {
	spec := mcpPodSpec("--personality="+personality, fmt.Sprintf("--listen=:%d", port))
	spec.Volumes = nil
	c := &spec.Containers[0]
	c.VolumeMounts, c.Ports = nil, []corev1.ContainerPort{{Name: "serving", ContainerPort: port}}
	c.ReadinessProbe.HTTPGet.Scheme, c.ReadinessProbe.HTTPGet.Port = corev1.URISchemeHTTP, intstr.FromInt32(port)
	pod := &corev1.Pod{ObjectMeta: named(namespace, personality), Spec: spec}
	pod.Labels = map[string]string{"app": personality}
	return pod
}

// selecting is a Service that forwards a port to a port of the pods with a label.
func selecting(namespace, name, app string, port int32, target intstr.IntOrString) *corev1.Service {
	return &corev1.Service{ObjectMeta: named(namespace, name), Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": app}, Ports: []corev1.ServicePort{{Port: port, TargetPort: target}},
	}}
}

// podReady reads a pod again and reports whether it is Ready.
func podReady(pod *corev1.Pod) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		if err := api.Get(ctx, keyOf(pod), pod); err != nil {
			return false, err
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady {
				return c.Status == corev1.ConditionTrue, nil
			}
		}
		return false, nil
	}
}

// chat creates a Session with a Model of its namespace, and a Turn of the same name.
func chat(ctx context.Context, namespace, name string, spec v1alpha1.ModelSpec) {
	GinkgoHelper()
	if spec.Provider == "" {
		spec.Provider, spec.Model = v1alpha1.ModelProviderOpenAI, "qwen3:8b"
	}
	create(ctx, &v1alpha1.Model{ObjectMeta: named(namespace, name), Spec: spec})
	harness := builder.Harness(name).In(namespace).Model(name).Obj()
	create(ctx, harness)
	session := builder.Session(name).In(namespace).Obj()
	session.Spec.HarnessRef.Name = name
	create(ctx, session)
	created := builder.Turn(name).In(namespace).Input("Hello").Obj()
	created.Spec.SessionRef.Name = name
	create(ctx, created)
}

// toService is a Model at a Service of its namespace.
func toService(name string, port int32) v1alpha1.ModelSpec {
	return v1alpha1.ModelSpec{ServiceRef: &v1alpha1.ServiceReference{Name: name, Port: port}}
}

// logOfOllama counts the lines of the server with a text.
func logOfOllama(ctx context.Context, namespace string) func(string) int {
	GinkgoHelper()
	log, err := clientset.CoreV1().Pods(namespace).GetLogs("ollama", &corev1.PodLogOptions{}).DoRaw(ctx)
	Expect(err).NotTo(HaveOccurred())
	return func(text string) int { return strings.Count(string(log), text) }
}

var _ = Describe("Models in the cluster", Ordered, func() {
	var namespace string
	var ollama *corev1.Pod

	BeforeAll(func(ctx SpecContext) {
		namespace = newNamespace(ctx)
		ollama = modelPod(namespace, "ollama", 11434)
		vllm := modelPod(namespace, "vllm", 8000)
		create(ctx, ollama)
		create(ctx, vllm)
		create(ctx, selecting(namespace, "ollama", "ollama", 11434, intstr.FromString("serving")))
		create(ctx, selecting(namespace, "vllm", "vllm", 80, intstr.FromInt32(8000)))
		Eventually(ctx, podReady(ollama)).Should(BeTrue())
		Eventually(ctx, podReady(vllm)).Should(BeTrue())
	}, NodeTimeout(time.Minute))

	It("answer at a serviceRef with nothing to configure", SpecTimeout(specLimit), func(ctx SpecContext) {
		chat(ctx, namespace, "ollama", toService("ollama", 11434))
		secret := &corev1.Secret{
			ObjectMeta: named(namespace, "vllm"), StringData: map[string]string{"api-key": "token-abc123"},
		}
		secret.Annotations = map[string]string{v1alpha1.AnnotationAllowedHosts: "http://vllm." + namespace + ".svc:80"}
		create(ctx, secret)
		create(ctx, managerMayReadSecrets(namespace))
		vllm := toService("vllm", 80)
		vllm.Provider, vllm.Model = v1alpha1.ModelProviderOpenAI, "Qwen/Qwen3-8B"
		vllm.SecretKeyRef = &v1alpha1.SecretKeyReference{Name: "vllm", Key: "api-key"}
		chat(ctx, namespace, "vllm", vllm)
		for _, name := range []string{"ollama", "vllm"} {
			done := succeeded(ctx, namespace, name)
			Expect(done.Status.Output).To(Equal("Good morning."))
			show(name, done.Status.Output)
		}
	})

	// Rules: CFG-05, CTX-05.
	It("are probed, and a network access list names the Services that tools may reach", SpecTimeout(specLimit),
		func(ctx SpecContext) {
			serveTrusted(ctx, namespace)
			probed := toService("ollama", 11434)
			probed.Provider, probed.Model, probed.Probe = v1alpha1.ModelProviderOpenAI, "qwen3:8b", &v1alpha1.ModelProbe{}
			create(ctx, &v1alpha1.Model{ObjectMeta: named(namespace, "probed"), Spec: probed})
			probedWithin(ctx, namespace, "probed", patience)
			askListed(ctx, namespace)
			done := succeeded(ctx, namespace, "listed")
			Expect(callOf(done, "mcp_tools__echo").State).To(Equal(v1alpha1.ToolCallStateSucceeded))
			Expect(callOf(done, "stock").Reason).To(Equal(v1alpha1.ToolCallReasonNetworkAccessDenied))
			show("over TLS, and what the list forbids", done.Status.Output)
		})

	It("are reached in no other way", SpecTimeout(specLimit), func(ctx SpecContext) {
		foreign := newNamespace(ctx)
		create(ctx, selecting(foreign, "selecting", "ollama", 11434, intstr.FromInt32(11434)))
		create(ctx, &corev1.Service{ObjectMeta: named(foreign, "external"), Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeExternalName, ExternalName: "ollama." + namespace + ".svc.cluster.local",
		}})
		forged := selecting(foreign, "forged", "none", 11434, intstr.FromInt32(11434))
		without := selecting(foreign, "without", "none", 11434, intstr.FromInt32(11434))
		without.Spec.Selector = nil
		for _, service := range []*corev1.Service{forged, without} {
			create(ctx, service)
			create(ctx, sliceFor(service, ollama.Status.PodIP, 11434))
		}
		onHost := newHostPod(ctx)
		create(ctx, selecting(onHost.Namespace, "host", "ollama", 18434, intstr.FromInt32(18434)))
		server := clientset.CoreV1().RESTClient().Get().URL()
		const notAllowed = "has no allowed address"
		attempts := map[string]struct {
			namespace string
			spec      v1alpha1.ModelSpec
			why       string
		}{
			"foreign":     {foreign, toService("ollama", 11434), `Service "ollama" does not exist`},
			"selecting":   {foreign, toService("selecting", 11434), "has no pod that is Ready"},
			"external":    {foreign, toService("external", 11434), "has the type ExternalName"},
			"forged":      {foreign, toService("forged", 11434), "has no pod that is Ready"},
			"without":     {foreign, toService("without", 11434), "has no selector"},
			"plain-url":   {foreign, at("http://ollama." + namespace + ".svc:11434/v1"), "the scheme of the URL is not https"},
			"pod-address": {foreign, at("https://" + ollama.Status.PodIP + ":11434/v1"), notAllowed},
			"host":        {onHost.Namespace, toService("host", 18434), "not on the network of its node"},
			"api-server":  {foreign, at("https://" + server.Host + "/v1"), notAllowed},
		}
		for name, attempt := range attempts {
			chat(ctx, attempt.namespace, name, attempt.spec)
		}
		for name, attempt := range attempts {
			Eventually(ctx, turn(attempt.namespace, name)).Should(HaveField("Status.Error", Not(BeNil())), name)
			failed := read(ctx, attempt.namespace, name)
			Expect(failed.Status.Error.Fields["problem"]).To(ContainSubstring(attempt.why), name)
			show(name, failed.Status.Error.Fields["problem"])
		}
		Expect(logOfOllama(ctx, namespace)("POST /v1/chat/completions")).To(Equal(1), "only the Turn of its own namespace")
		Expect(logOfOllama(ctx, namespace)("GET /v1/models")).To(Equal(1), "one probe")
		Expect(logOfOllama(ctx, namespace)("/v1/stock")).To(BeZero(), "the network access list")
	})
})

var _ = Describe("Models in the cluster that another namespace shares", alone, func() {
	It("are reached from a namespace that the operator permits, and from no other", SpecTimeout(specLimit+rolloutLimit),
		func(ctx SpecContext) {
			namespace, permitted, other := newNamespace(ctx), newNamespace(ctx), newNamespace(ctx)
			ollama := modelPod(namespace, "ollama", 11434)
			create(ctx, ollama)
			create(ctx, selecting(namespace, "ollama", "ollama", 11434, intstr.FromString("serving")))
			Eventually(ctx, podReady(ollama)).Should(BeTrue())
			permit(ctx, permitted, namespace)
			there := at("http://ollama." + namespace + ".svc:11434/v1")
			chat(ctx, permitted, "ollama", there)
			chat(ctx, other, "ollama", there)
			Expect(succeeded(ctx, permitted, "ollama").Status.Output).To(Equal("Good morning."))
			Eventually(ctx, turn(other, "ollama")).Should(HaveField("Status.Error", Not(BeNil())))
			Expect(logOfOllama(ctx, namespace)("POST /v1/chat/completions")).To(Equal(1))
		})
})

// at is a Model at a URL.
func at(baseURL string) v1alpha1.ModelSpec { return v1alpha1.ModelSpec{BaseURL: baseURL} }

// sliceFor is an EndpointSlice that lets an address stand behind a Service.
func sliceFor(service *corev1.Service, address string, port int32) *discoveryv1.EndpointSlice {
	ready, name := true, ""
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: named(service.Namespace, service.Name), AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		}},
		Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
	}
	slice.Labels = map[string]string{discoveryv1.LabelServiceName: service.Name}
	return slice
}

// newHostPod starts a server of models on the network of the node, in a namespace that permits that.
func newHostPod(ctx context.Context) *corev1.Pod {
	GinkgoHelper()
	space := &corev1.Namespace{}
	namespace := newNamespace(ctx)
	Expect(api.Get(ctx, client.ObjectKey{Name: namespace}, space)).To(Succeed())
	permitted := client.MergeFrom(space.DeepCopy())
	if space.Labels == nil {
		space.Labels = map[string]string{}
	}
	space.Labels["pod-security.kubernetes.io/enforce"] = "privileged"
	Expect(api.Patch(ctx, space, permitted)).To(Succeed())
	pod := modelPod(namespace, "ollama", 18434)
	pod.Spec.HostNetwork = true
	pod.Spec.Containers[0].Ports[0].HostPort = 18434
	create(ctx, pod)
	Eventually(ctx, podReady(pod)).Should(BeTrue())
	Expect(pod.Status.PodIPs).NotTo(BeEmpty())
	return pod
}
