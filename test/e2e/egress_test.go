//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/cert"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/internal/testing/site"
)

// serveTrusted starts an MCPServer in a pod, over TLS with a certificate of its own that is in a ConfigMap beside it.
func serveTrusted(ctx context.Context, namespace string) {
	GinkgoHelper()
	host := mcpName + "." + namespace + ".svc"
	certificate, key, err := cert.GenerateSelfSignedCertKey(host, nil, []string{host})
	Expect(err).NotTo(HaveOccurred())
	create(ctx, &corev1.ConfigMap{
		ObjectMeta: named(namespace, mcpName+"-ca"), Data: map[string]string{"ca.crt": string(certificate)},
	})
	create(ctx, &corev1.Secret{ObjectMeta: named(namespace, mcpName), Type: corev1.SecretTypeTLS, Data: map[string][]byte{
		corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key,
	}})
	pod := &corev1.Pod{
		ObjectMeta: named(namespace, mcpName),
		Spec:       mcpPodSpec("--generation="+string(site.Stateless), "--personality=plain"),
	}
	pod.Labels = map[string]string{"app": mcpName}
	create(ctx, pod)
	create(ctx, selecting(namespace, mcpName, mcpName, 443, intstr.FromInt32(mcpPort)))
	// A server that cannot be reached yet is asked again after half a minute only.
	Eventually(ctx, podReady(pod)).Should(BeTrue())
	create(ctx, &v1alpha1.MCPServer{ObjectMeta: named(namespace, mcpName), Spec: v1alpha1.MCPServerSpec{
		ServiceRef: &v1alpha1.ServiceReference{Name: mcpName, Port: 443, Scheme: v1alpha1.ServiceSchemeHTTPS, Path: "/mcp"},
		CABundle: &v1alpha1.CABundleSource{
			ConfigMapKeyRef: &v1alpha1.ConfigMapKeyReference{Name: mcpName + "-ca", Key: "ca.crt"},
		},
	}})
}

// askListed creates a Turn of a Session whose network access list has the server of serveTrusted, and not the Service
// stock, which a tool asks as well.
func askListed(ctx context.Context, namespace string) {
	GinkgoHelper()
	create(ctx, builder.Model("scripted").In(namespace).Simulated(builder.Script(
		"{{tool:mcp_tools__echo}} {{tool:stock}}", builder.Calls("mcp_tools__echo", "stock"))).Obj())
	stock := builder.HTTPTool("stock", v1alpha1.SideEffectPure, "").In(namespace).Obj()
	stock.Spec.HTTP.ServiceRef = &v1alpha1.ServiceReference{Name: "ollama", Port: 11434, Path: "/v1/stock"}
	create(ctx, stock)
	create(ctx, builder.Harness("listed").In(namespace).Model("scripted").Tools("stock").Obj())
	session := builder.Session("listed").In(namespace).Obj()
	session.Spec.HarnessRef.Name = "listed"
	session.Spec.MCPServers = []v1alpha1.LocalReference{{Name: mcpName}}
	session.Spec.NetworkAccess = &v1alpha1.NetworkAccess{
		Allowed: []v1alpha1.NetworkPattern{v1alpha1.NetworkPattern(mcpName + "." + namespace + ".svc")},
	}
	create(ctx, session)
	create(ctx, builder.Turn("listed").In(namespace).Session("listed").Input("Ask").Obj())
}

// permit starts the manager with an egress configuration that lets a namespace reach the Service ollama of another one.
func permit(ctx context.Context, permitted, namespace string) {
	GinkgoHelper()
	const name, file = "e2e-egress", "egress.yaml"
	policy := &corev1.ConfigMap{ObjectMeta: named(managerNamespace, name), Data: map[string]string{
		file: fmt.Sprintf(`apiVersion: manager.capstan.dev/v1alpha1
kind: EgressPolicy
rules:
- namespaces: [%s]
  services: [{namespace: %s, name: ollama, ports: [11434]}]
  plainHTTP: Allowed
`, permitted, namespace),
	}}
	create(ctx, policy)
	DeferCleanup(func(ctx SpecContext) { Expect(api.Delete(ctx, policy)).To(Succeed()) }, NodeTimeout(time.Minute))
	changeManager(ctx, func(spec *corev1.PodSpec) {
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}},
		}})
		container := managerIn(spec)
		container.Args = append(container.Args, "--egress-config=/"+name+"/"+file)
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/" + name})
	})
}

// probedWithin waits for the first probe of a Model.
func probedWithin(ctx context.Context, namespace, model string, limit time.Duration) {
	GinkgoHelper()
	kubectl(
		ctx,
		"wait",
		"--namespace",
		namespace,
		"model/"+model,
		"--for=condition=Reachable",
		"--timeout="+limit.String(),
	)
	show("a Model that was probed", kubectl(ctx, "get", "--namespace", namespace, "model", model,
		`--output=jsonpath={.status.conditions[?(@.type=="Reachable")].message} {.status.lastProbeTime}`))
}
