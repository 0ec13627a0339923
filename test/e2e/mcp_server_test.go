//go:build e2e

package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/internal/testing/mcpwire"
	"github.com/capstan-dev/capstan/internal/testing/site"
)

const (
	mcpServerImage = "capstan.dev/mcpserver:dev"
	// mcpName is the name of each MCPServer, and of the Deployment and the Service behind it.
	mcpName = "tools"
	mcpPort = 8443
)

// mcpHost is the address at which the manager reaches servers in pods, with a certificate that it trusts.
type mcpHost struct {
	address          string
	certificate, key []byte
}

// newMCPHost lets the manager reach servers until the end of the spec, or of the container of specs.
func newMCPHost(ctx context.Context) *mcpHost {
	GinkgoHelper()
	h := &mcpHost{address: hostAddress(ctx)}
	var err error
	h.certificate, h.key, err = cert.GenerateSelfSignedCertKey(h.address, []net.IP{net.ParseIP(h.address)}, nil)
	Expect(err).NotTo(HaveOccurred())
	trust(ctx, h.certificate, "--egress-allow-cidr="+h.address+"/32")
	return h
}

// mcpPod is a server in a pod.
type mcpPod struct {
	namespace string
	// url is that of the Service.
	url string
}

// serve starts a server in a pod, behind a Service, and returns once it is ready.
func (h *mcpHost) serve(ctx context.Context, namespace string, g site.Generation, personality string) *mcpPod {
	GinkgoHelper()
	labels := map[string]string{"app": mcpName}
	tls := &corev1.Secret{ObjectMeta: named(namespace, mcpName), Type: corev1.SecretTypeTLS, Data: map[string][]byte{
		corev1.TLSCertKey: h.certificate, corev1.TLSPrivateKeyKey: h.key,
	}}
	deployment := &appsv1.Deployment{ObjectMeta: named(namespace, mcpName), Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       mcpPodSpec("--generation="+string(g), "--personality="+personality),
		},
	}}
	service := &corev1.Service{ObjectMeta: named(namespace, mcpName), Spec: corev1.ServiceSpec{
		Selector: labels,
		Ports:    []corev1.ServicePort{{Port: 443, TargetPort: intstr.FromInt32(mcpPort)}},
	}}
	for _, object := range []client.Object{tls, deployment, service} {
		create(ctx, object)
	}
	p := &mcpPod{namespace: namespace}
	p.url = fmt.Sprintf("https://%s/mcp", net.JoinHostPort(h.address, forward(ctx, service)))
	Eventually(ctx, p.ready).ShouldNot(BeEmpty())
	return p
}

// mcpPodSpec is a restricted pod with the server.
func mcpPodSpec(arguments ...string) corev1.PodSpec {
	spec := probeSpec()
	no, yes, grace := false, true, int64(1)
	spec.RestartPolicy, spec.TerminationGracePeriodSeconds = corev1.RestartPolicyAlways, &grace
	spec.AutomountServiceAccountToken = &no
	spec.Volumes = []corev1.Volume{{Name: "tls", VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: mcpName},
	}}}
	c := &spec.Containers[0]
	c.Name, c.Image, c.Args = mcpName, mcpServerImage, arguments
	c.SecurityContext.ReadOnlyRootFilesystem = &yes
	c.VolumeMounts = []corev1.VolumeMount{{Name: "tls", MountPath: "/tls", ReadOnly: true}}
	c.ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
		Scheme: corev1.URISchemeHTTPS, Path: "/healthz", Port: intstr.FromInt32(mcpPort),
	}}}
	return spec
}

// ready is the name of the pod that serves; empty if there is none.
func (p *mcpPod) ready(ctx context.Context) (string, error) {
	var pods corev1.PodList
	err := api.List(ctx, &pods, client.InNamespace(p.namespace), client.MatchingLabels{"app": mcpName})
	for _, pod := range pods.Items {
		if s := statusOf(&pod, mcpName); s != nil && s.Ready && pod.DeletionTimestamp == nil {
			return pod.Name, err
		}
	}
	return "", err
}

// messages are those that the pod that serves has exchanged with its clients.
func (p *mcpPod) messages(ctx context.Context) ([]mcpwire.Message, error) {
	name, err := p.ready(ctx)
	if err != nil {
		return nil, err
	}
	text, err := clientset.CoreV1().Pods(p.namespace).GetLogs(name, &corev1.PodLogOptions{}).DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the log of pod %s: %w", name, err)
	}
	var messages []mcpwire.Message
	for line := range bytes.Lines(text) {
		var m mcpwire.Message
		if !bytes.HasPrefix(line, []byte("{")) {
			continue // Of net/http, about a connection.
		}
		if err := json.Unmarshal(line, &m); err != nil {
			return nil, fmt.Errorf("reading %q: %w", line, err)
		}
		messages = append(messages, m)
	}
	return messages, nil
}

// requests are the messages of clients with a method.
func (p *mcpPod) requests(method string) func(context.Context) ([]mcpwire.Message, error) {
	return func(ctx context.Context) ([]mcpwire.Message, error) {
		all, err := p.messages(ctx)
		var found []mcpwire.Message
		for _, m := range all {
			if m.From == mcpwire.Client && m.Method == method {
				found = append(found, m)
			}
		}
		return found, err
	}
}

// called waits until the pod that serves has received so many calls, and returns the keys of all that it has received.
func (p *mcpPod) called(ctx context.Context, times int) []string {
	GinkgoHelper()
	var found []mcpwire.Message
	Eventually(ctx, func(ctx context.Context) (_ []mcpwire.Message, err error) {
		found, err = p.requests("tools/call")(ctx)
		return found, err
	}).Should(HaveLen(times))
	keys := make([]string, 0, len(found))
	for _, m := range found {
		keys = append(keys, m.Key)
	}
	return keys
}

// showMessages adds the messages of the pod that serves to the report.
func (p *mcpPod) showMessages(ctx context.Context, what string) {
	GinkgoHelper()
	messages, err := p.messages(ctx)
	Expect(err).NotTo(HaveOccurred())
	var b strings.Builder
	for _, c := range mcpwire.Conversations(messages) {
		fmt.Fprintf(&b, "%s\n%s\n", mcpwire.PurposeOf(c), indent(c.String()+"\n"))
	}
	show(what, b.String())
}

// kill ends the process that serves without warning, with its pod, and returns once another pod serves.
func (p *mcpPod) kill(ctx context.Context) {
	GinkgoHelper()
	victim, err := p.ready(ctx)
	Expect(err).NotTo(HaveOccurred())
	pod := &corev1.Pod{ObjectMeta: named(p.namespace, victim)}
	Expect(api.Get(ctx, keyOf(pod), pod)).To(Succeed())
	_, container, _ := strings.Cut(statusOf(pod, mcpName).ContainerID, "://")
	processes, err := processesOf(container)
	Expect(err).NotTo(HaveOccurred())
	Expect(processes).To(HaveLen(1), needsHere)
	// The pod first, so that the container is not started again in it.
	Expect(api.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
	if err := syscall.Kill(processes[0], syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
		Expect(err).NotTo(HaveOccurred())
	}
	Eventually(ctx, func() ([]int, error) { return processesOf(container) }).Should(BeEmpty())
	Eventually(ctx, p.ready).Should(Not(Or(BeEmpty(), Equal(victim))))
}

// newMCPStage is a stage whose Session demo has the tools of a server in a pod. Its rules are those of the MCPServer.
func (h *mcpHost) newMCPStage(
	ctx context.Context, g site.Generation, personality string, script v1alpha1.Simulation, rules []v1alpha1.MCPToolRule,
	tools ...*v1alpha1.Tool,
) *mcpPod {
	GinkgoHelper()
	namespace := newNamespace(ctx)
	for _, object := range builder.Stage(namespace, script, tools...) {
		create(ctx, object)
	}
	p := h.serve(ctx, namespace, g, personality)
	create(ctx, &v1alpha1.MCPServer{
		ObjectMeta: named(namespace, mcpName), Spec: v1alpha1.MCPServerSpec{URL: p.url, Tools: rules},
	})
	session := builder.Session("demo").In(namespace).Obj()
	session.Spec.MCPServers = []v1alpha1.LocalReference{{Name: mcpName}}
	create(ctx, session)
	kubectl(ctx, "wait", "--namespace", namespace, "mcpserver/"+mcpName, "--for=condition=Ready", "--timeout=60s")
	return p
}

// discovered reads the MCPServer.
func (p *mcpPod) discovered(ctx context.Context) (*v1alpha1.MCPServer, error) {
	server := &v1alpha1.MCPServer{ObjectMeta: named(p.namespace, mcpName)}
	return server, api.Get(ctx, keyOf(server), server)
}

// forward passes connections to a port of this machine on to a pod behind a Service, as kube-proxy does on other
// clusters, and returns the port. A connection waits until a pod is ready.
func forward(ctx context.Context, service *corev1.Service) string {
	GinkgoHelper()
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", ":0")
	Expect(err).NotTo(HaveOccurred())
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	DeferCleanup(func() {
		stop()
		_ = listener.Close()
	})
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go passOn(serving, conn, service)
		}
	}()
	return strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
}

// passOn passes a connection on until one of its sides has ended.
func passOn(ctx context.Context, from net.Conn, service *corev1.Service) {
	defer from.Close()
	to, err := dial(ctx, service)
	if err != nil {
		return
	}
	defer to.Close()
	ended := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
		go func() {
			_, _ = io.Copy(way[0], way[1]) // The other side sees the end of the connection, whatever it is.
			ended <- struct{}{}
		}()
	}
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

// dial connects to a pod behind a Service.
func dial(ctx context.Context, service *corev1.Service) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		conn, err := dialOnce(ctx, service)
		if err == nil || ctx.Err() != nil {
			return conn, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(interval):
		}
	}
}

func dialOnce(ctx context.Context, service *corev1.Service) (net.Conn, error) {
	var slices discoveryv1.EndpointSliceList
	if err := api.List(ctx, &slices, client.InNamespace(service.Namespace), client.MatchingLabels{
		discoveryv1.LabelServiceName: service.Name,
	}); err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: time.Second}
	for _, slice := range slices.Items {
		for _, endpoint := range slice.Endpoints {
			if ready := endpoint.Conditions.Ready; ready != nil && *ready && len(slice.Ports) == 1 {
				port := strconv.Itoa(int(*slice.Ports[0].Port))
				return dialer.DialContext(ctx, "tcp", net.JoinHostPort(endpoint.Addresses[0], port))
			}
		}
	}
	return nil, errors.New("no pod is ready")
}
