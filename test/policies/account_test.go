package policies_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobspec"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/test/internal/suite"
)

// managerAsAdmin has the manager's name and every right: only policies hold it.
func managerAsAdmin() client.Client {
	GinkgoHelper()
	return suite.Client(impersonating(managerUser, "system:masters"))
}

// tokenVolume is the volume with the token of a tool of the capability platform, with a change.
func tokenVolume(change func(*corev1.ServiceAccountTokenProjection)) corev1.Volume {
	token := &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: ptr.To[int64](600)}
	change(token)
	return corev1.Volume{Name: "capstan-token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{ServiceAccountToken: token}, {ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
		}}},
	}}}
}

// platformPod makes a Job that of a tool of the capability platform.
func platformPod(change func(*corev1.ServiceAccountTokenProjection)) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		j.Spec.Template.Labels[v1alpha1.LabelCapability] = "platform"
		j.Spec.Template.Spec.Volumes = append(j.Spec.Template.Spec.Volumes, tokenVolume(change))
	}
}

// Rules: SVC-04.
var _ = Describe("The policy manager-jobs", func() {
	const (
		notOurs      = "the manager may create only Jobs of tool calls"
		namespaces   = "the manager must not create Jobs in system namespaces or in its own namespace."
		unrestricted = "the manager may create only Jobs within the restricted Pod Security Standard"
		volume       = "the pods of tool calls may have only the volumes of their launcher."
		account      = "the manager must set serviceAccountName of the pod of a tool call"
		environment  = "the environment of tool calls may have only values and keys of Secrets."
	)

	It("lets the manager create the Jobs of tool calls", func(ctx context.Context) {
		turn := stored(ctx, admin, builder.Turn("held").In(teamA).Obj())
		accepts(creating(ctx, as(managerUser), callJob(turn, newTool("tool"))))
		definition := newTool("tool", fromSecret("A", "held"))
		definition.Spec.Job.Network = v1alpha1.NetworkReachNone
		accepts(creating(ctx, as(managerUser), callJob(turn, definition)))
		by := callJob(turn, definition)
		by.Spec.Template.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{
			Image: &corev1.ImageVolumeSource{Reference: "example.org/launcher:1"},
		}
		accepts(creating(ctx, as(managerUser), by))
		sharing := callJob(turn, newTool("tool"))
		sharing.Spec.Template.Spec.Volumes = append(sharing.Spec.Template.Spec.Volumes, corev1.Volume{
			Name: "capstan-files", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		})
		accepts(creating(ctx, as(managerUser), sharing))
		managing := callJob(turn, newTool("tool"))
		platformPod(func(*corev1.ServiceAccountTokenProjection) {})(managing)
		accepts(creating(ctx, as(managerUser), managing))
	})

	It("lets it create no other objects, whatever its permissions", func(ctx context.Context) {
		turn := stored(ctx, admin, builder.Turn("held").In(teamA).Obj())
		pod := func(change func(*corev1.PodSpec)) func(*batchv1.Job) {
			return func(j *batchv1.Job) { change(&j.Spec.Template.Spec) }
		}
		for what, c := range map[string]struct {
			change  func(*batchv1.Job)
			message string
		}{
			"no owner":           {func(j *batchv1.Job) { j.OwnerReferences = nil }, notOurs},
			"no controller":      {func(j *batchv1.Job) { j.OwnerReferences[0].Controller = nil }, notOurs},
			"another kind":       {func(j *batchv1.Job) { j.OwnerReferences[0].Kind = "Session" }, notOurs},
			"another group":      {func(j *batchv1.Job) { j.OwnerReferences[0].APIVersion = "example.org/v1" }, notOurs},
			"another Turn":       {func(j *batchv1.Job) { j.OwnerReferences[0].UID = "other" }, notOurs},
			"no label":           {func(j *batchv1.Job) { delete(j.Labels, v1alpha1.LabelManagedBy) }, notOurs},
			"pods without label": {func(j *batchv1.Job) { delete(j.Spec.Template.Labels, v1alpha1.LabelTurnUID) }, notOurs},
			"host network":       {pod(func(p *corev1.PodSpec) { p.HostNetwork = true }), unrestricted},
			"host processes":     {pod(func(p *corev1.PodSpec) { p.HostPID = true }), unrestricted},
			"host IPC":           {pod(func(p *corev1.PodSpec) { p.HostIPC = true }), unrestricted},
			"a node":             {pod(func(p *corev1.PodSpec) { p.NodeName = "node-1" }), unrestricted},
			"a system class":     {pod(func(p *corev1.PodSpec) { p.PriorityClassName = "system-node-critical" }), unrestricted},
			"no account":         {pod(func(p *corev1.PodSpec) { p.ServiceAccountName = "" }), account},
			"a token by default": {pod(func(p *corev1.PodSpec) { p.AutomountServiceAccountToken = nil }), account},
			"privileged": {pod(func(p *corev1.PodSpec) {
				p.Containers[0].SecurityContext.Privileged, p.Containers[0].SecurityContext.AllowPrivilegeEscalation = ptr.To(
					true,
				), nil
			}), unrestricted},
			"escalation": {
				pod(func(p *corev1.PodSpec) { p.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil }), unrestricted,
			},
			"no context": {pod(func(p *corev1.PodSpec) { p.InitContainers[0].SecurityContext = nil }), unrestricted},
			"root":       {pod(func(p *corev1.PodSpec) { p.SecurityContext.RunAsNonRoot = nil }), unrestricted},
			"root in particular": {
				pod(func(p *corev1.PodSpec) { p.Containers[0].SecurityContext.RunAsUser = ptr.To[int64](0) }), unrestricted,
			},
			"capabilities": {pod(func(p *corev1.PodSpec) {
				p.Containers[0].SecurityContext.Capabilities.Add = []corev1.Capability{"SYS_ADMIN"}
			}), unrestricted},
			"host port": {pod(func(p *corev1.PodSpec) {
				p.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
			}), unrestricted},
			"no seccomp": {pod(func(p *corev1.PodSpec) { p.SecurityContext.SeccompProfile = nil }), unrestricted},
			"no seccomp in particular": {pod(func(p *corev1.PodSpec) {
				p.Containers[0].SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
			}), unrestricted},
			"no AppArmor": {pod(func(p *corev1.PodSpec) {
				p.SecurityContext.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
			}), unrestricted},
			"no AppArmor in particular": {pod(func(p *corev1.PodSpec) {
				p.InitContainers[0].SecurityContext.AppArmorProfile = &corev1.AppArmorProfile{
					Type: corev1.AppArmorProfileTypeUnconfined,
				}
			}), unrestricted},
			"no AppArmor by annotation": {func(j *batchv1.Job) {
				j.Spec.Template.Annotations["container.apparmor.security.beta.kubernetes.io/tool"] = "unconfined"
			}, unrestricted},
			"SELinux": {pod(func(p *corev1.PodSpec) {
				p.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Type: "spc_t"}
			}), unrestricted},
			"SELinux in particular": {pod(func(p *corev1.PodSpec) {
				p.Containers[0].SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Type: "spc_t"}
			}), unrestricted},
			"sysctls": {pod(func(p *corev1.PodSpec) {
				p.SecurityContext.Sysctls = []corev1.Sysctl{{Name: "kernel.shm_rmid_forced", Value: "0"}}
			}), unrestricted},
			"Windows": {pod(func(p *corev1.PodSpec) {
				p.SecurityContext.WindowsOptions = &corev1.WindowsSecurityContextOptions{
					RunAsUserName: ptr.To("ContainerAdministrator"),
				}
			}), unrestricted},
			"a probe of another host": {pod(func(p *corev1.PodSpec) {
				p.Containers[0].LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
					TCPSocket: &corev1.TCPSocketAction{Host: "169.254.169.254", Port: intstr.FromInt32(80)},
				}}
			}), unrestricted},
			"a hook to another host": {pod(func(p *corev1.PodSpec) {
				p.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
					HTTPGet: &corev1.HTTPGetAction{Host: "169.254.169.254", Port: intstr.FromInt32(80)},
				}}
			}), unrestricted},
			"host path": {pod(func(p *corev1.PodSpec) {
				p.Volumes[0].VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}
			}), volume},
			"a Secret as a volume": {pod(func(p *corev1.PodSpec) {
				p.Volumes = append(
					p.Volumes,
					corev1.Volume{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}},
				)
			}), volume},
			"a host path for files": {pod(func(p *corev1.PodSpec) {
				p.Volumes = append(p.Volumes, corev1.Volume{Name: "capstan-files", VolumeSource: corev1.VolumeSource{
					HostPath: &corev1.HostPathVolumeSource{Path: "/"},
				}})
			}), volume},
			"a further directory": {pod(func(p *corev1.PodSpec) {
				p.Volumes = append(
					p.Volumes, corev1.Volume{Name: "s", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				)
			}), volume},
			"a token in the pod of a Tool": {pod(func(p *corev1.PodSpec) {
				p.Volumes = append(p.Volumes, tokenVolume(func(*corev1.ServiceAccountTokenProjection) {}))
			}), volume},
			"a token for another server": {platformPod(func(s *corev1.ServiceAccountTokenProjection) {
				s.Audience = "vault"
			}), volume},
			"a token for longer": {platformPod(func(s *corev1.ServiceAccountTokenProjection) {
				s.ExpirationSeconds = ptr.To[int64](601)
			}), volume},
			"a Secret beside the token": {func(j *batchv1.Job) {
				platformPod(func(*corev1.ServiceAccountTokenProjection) {})(j)
				volumes := j.Spec.Template.Spec.Volumes
				last := volumes[len(volumes)-1].Projected
				last.Sources = append(last.Sources, corev1.VolumeProjection{Secret: &corev1.SecretProjection{
					LocalObjectReference: corev1.LocalObjectReference{Name: "s"},
				}})
			}, volume},
			"the token in the launcher's container": {func(j *batchv1.Job) {
				platformPod(func(*corev1.ServiceAccountTokenProjection) {})(j)
				first := &j.Spec.Template.Spec.InitContainers[0]
				first.VolumeMounts = append(first.VolumeMounts, corev1.VolumeMount{Name: "capstan-token", MountPath: "/t"})
			}, "only the container of the tool may have the token."},
			"a whole Secret": {pod(func(p *corev1.PodSpec) {
				p.Containers[0].EnvFrom = []corev1.EnvFromSource{
					{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}},
				}
			}), environment},
			"a ConfigMap": {pod(func(p *corev1.PodSpec) {
				p.Containers[0].Env = append(p.Containers[0].Env, corev1.EnvVar{Name: "A", ValueFrom: &corev1.EnvVarSource{
					ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
						LocalObjectReference: corev1.LocalObjectReference{Name: "s"}, Key: "k",
					},
				}})
			}), environment},
		} {
			By(what)
			job := callJob(turn, newTool("tool"))
			c.change(job)
			refuses(creating(ctx, managerAsAdmin(), job), c.message)
		}
		for _, namespace := range []string{"kube-system", "kube-public", "kube-node-lease", "capstan-system"} {
			By(namespace)
			job := callJob(turn, newTool("tool"))
			job.Namespace = namespace
			refuses(creating(ctx, managerAsAdmin(), job), namespaces)
		}
		cut := newTool("tool")
		cut.Spec.Job.Network = v1alpha1.NetworkReachNone
		job := callJob(turn, cut)
		job.Spec.Template.Labels["team"] = "a"
		refuses(
			creating(ctx, managerAsAdmin(), job),
			"the pod of a tool call without network access may have only the labels of the manager",
		)
	})

	It("lets it change none, and delete only its own", func(ctx context.Context) {
		turn := stored(ctx, admin, builder.Turn("held").In(teamA).Obj())
		job := stored(ctx, as(managerUser), callJob(turn, newTool("tool")))
		plain := stored(ctx, admin, plainJob("theirs"))
		refuses(
			updating(ctx, managerAsAdmin(), job, func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(false) }),
			"the manager must not change Jobs.",
		)
		accepts(func() error { return as(managerUser).Delete(ctx, job.DeepCopy(), client.DryRunAll) })
		accepts(func() error {
			return as(
				managerUser,
			).DeleteAllOf(ctx, &batchv1.Job{}, client.InNamespace(teamA), client.MatchingLabels{
				v1alpha1.LabelTurnUID: string(turn.UID),
			},
				client.DryRunAll)
		})
		refuses(
			func() error { return as(managerUser).Delete(ctx, plain.DeepCopy(), client.DryRunAll) },
			"the manager may delete only Jobs of tool calls.",
		)
		refuses(func() error {
			return as(managerUser).DeleteAllOf(ctx, &batchv1.Job{}, client.InNamespace(teamA), client.DryRunAll)
		}, "the manager may delete only Jobs of tool calls.")
	})
})

var _ = Describe("The policy manager-pods", func() {
	const (
		held   = "the manager may only remove the scheduling gate capstan.dev/start from the pods of tool calls."
		theirs = "the manager may delete only pods of tool calls."
	)

	It("lets the manager open the gate of a pod of its own, and delete it", func(ctx context.Context) {
		pod := callPod(ctx, newTool("tool"))
		accepts(func() error {
			patch := client.RawPatch(types.MergePatchType, jobspec.ReleasePatch(pod, metav1.Now().Time))
			return as(managerUser).Patch(ctx, pod.DeepCopy(), patch, client.DryRunAll)
		})
		accepts(func() error { return as(managerUser).Delete(ctx, pod.DeepCopy(), client.DryRunAll) })
	})

	It("lets it change no other field, and no other pod", func(ctx context.Context) {
		pod := callPod(ctx, newTool("tool"))
		other := podOf(plainJob("other"))
		other.OwnerReferences = nil
		stored(ctx, admin, other)
		for what, change := range map[string]func(*corev1.Pod){
			"image":      func(p *corev1.Pod) { p.Spec.Containers[0].Image = "example.org/other:1" },
			"init image": func(p *corev1.Pod) { p.Spec.InitContainers[0].Image = "example.org/other:1" },
			"deadline":   func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = ptr.To[int64](1) },
			"toleration": func(p *corev1.Pod) {
				p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: "spot", Operator: corev1.TolerationOpExists})
			},
			"node":        func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"a": "b"} },
			"label":       func(p *corev1.Pod) { p.Labels["team"] = "a" },
			"no label":    func(p *corev1.Pod) { delete(p.Labels, v1alpha1.LabelManagedBy) },
			"annotation":  func(p *corev1.Pod) { p.Annotations[v1alpha1.AnnotationArguments] = "{}" },
			"owner":       func(p *corev1.Pod) { p.OwnerReferences = nil },
			"finalizer":   func(p *corev1.Pod) { p.Finalizers = []string{"example.org/held"} },
			"foreign pod": nil,
		} {
			By(what)
			if change == nil {
				refuses(
					updating(ctx, managerAsAdmin(), other, func(p *corev1.Pod) { p.Spec.Containers[0].Image = "example.org/other:1" }),
					held,
				)
				continue
			}
			refuses(updating(ctx, managerAsAdmin(), pod, change), held)
		}
		refuses(func() error { return as(managerUser).Delete(ctx, other.DeepCopy(), client.DryRunAll) }, theirs)
		made := podOf(plainJob("made"))
		made.OwnerReferences = nil
		refuses(creating(ctx, managerAsAdmin(), made), "the manager must not create pods")
		patch := client.RawPatch(types.StrategicMergePatchType, []byte(`{"status":{"message":"forged"}}`))
		refuses(func() error { return managerAsAdmin().Status().Patch(ctx, other.DeepCopy(), patch, client.DryRunAll) },
			"the manager must not create pods, or use any subresource of pods")
		refuses(func() error {
			return managerAsAdmin().SubResource("eviction").Create(ctx, other.DeepCopy(), evictionOf(other))
		}, "the manager must not create pods, or use any subresource of pods")
	})
})

var _ = Describe("The policy manager-network-policies", func() {
	It("lets the manager create the one that denies everything, and no other", func(ctx context.Context) {
		const held = "the manager may create only the NetworkPolicy capstan-network-none"
		Expect(
			client.IgnoreNotFound(admin.Delete(ctx, jobspec.NetworkPolicyNone(teamB))),
		).To(Succeed(), "another spec may have left it")
		accepts(creating(ctx, as(managerUser), jobspec.NetworkPolicyNone(teamB)))
		for what, change := range map[string]func(*networkingv1.NetworkPolicy){
			"name":     func(p *networkingv1.NetworkPolicy) { p.Name = "other" },
			"selector": func(p *networkingv1.NetworkPolicy) { p.Spec.PodSelector = metav1.LabelSelector{} },
			"expression": func(p *networkingv1.NetworkPolicy) {
				p.Spec.PodSelector.MatchExpressions = []metav1.LabelSelectorRequirement{
					{Key: "a", Operator: metav1.LabelSelectorOpExists},
				}
			},
			"opens": func(p *networkingv1.NetworkPolicy) { p.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{{}} },
			"ingress": func(p *networkingv1.NetworkPolicy) {
				p.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}
			},
		} {
			By(what)
			policy := jobspec.NetworkPolicyNone(teamB)
			change(policy)
			refuses(creating(ctx, as(managerUser), policy), held)
		}
		there := stored(ctx, admin, jobspec.NetworkPolicyNone(teamB))
		refuses(func() error { return managerAsAdmin().Delete(ctx, there.DeepCopy(), client.DryRunAll) }, held)
		refuses(
			updating(
				ctx,
				managerAsAdmin(),
				there,
				func(p *networkingv1.NetworkPolicy) { p.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{{}} },
			),
			held,
		)
	})
})

var _ = Describe("The policy manager-service-accounts", func() {
	It("lets the manager create the account of tool pods, and no other", func(ctx context.Context) {
		const held = "the manager may create only the ServiceAccount capstan-tool"
		Expect(
			client.IgnoreNotFound(admin.Delete(ctx, jobspec.ServiceAccount(teamB))),
		).To(Succeed(), "another spec may have left it")
		accepts(creating(ctx, as(managerUser), jobspec.ServiceAccount(teamB)))
		for what, change := range map[string]func(*corev1.ServiceAccount){
			"name":         func(s *corev1.ServiceAccount) { s.Name = "default" },
			"label":        func(s *corev1.ServiceAccount) { s.Labels = nil },
			"token":        func(s *corev1.ServiceAccount) { s.AutomountServiceAccountToken = ptr.To(true) },
			"unsaid token": func(s *corev1.ServiceAccount) { s.AutomountServiceAccountToken = nil },
			"pull secrets": func(
				s *corev1.ServiceAccount,
			) {
				s.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
			},
			"secrets": func(s *corev1.ServiceAccount) { s.Secrets = []corev1.ObjectReference{{Name: "token"}} },
			"an identity in the cloud": func(s *corev1.ServiceAccount) {
				s.Annotations = map[string]string{"eks.amazonaws.com/role-arn": "arn:aws:iam::111122223333:role/admin"}
			},
			"owner": func(s *corev1.ServiceAccount) {
				s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "a", UID: "b"}}
			},
			"finalizer": func(s *corev1.ServiceAccount) { s.Finalizers = []string{"example.org/held"} },
		} {
			By(what)
			account := jobspec.ServiceAccount(teamB)
			change(account)
			refuses(creating(ctx, managerAsAdmin(), account), held)
		}
		for _, namespace := range []string{"kube-system", "kube-public", "kube-node-lease", "capstan-system"} {
			By(namespace)
			refuses(
				creating(ctx, managerAsAdmin(), jobspec.ServiceAccount(namespace)),
				"the manager must not create ServiceAccounts in system namespaces or in its own namespace.",
			)
		}
		there := stored(ctx, admin, jobspec.ServiceAccount(teamB))
		refuses(func() error { return managerAsAdmin().Delete(ctx, there.DeepCopy(), client.DryRunAll) }, held)
		refuses(
			updating(ctx, managerAsAdmin(), there, func(s *corev1.ServiceAccount) { s.AutomountServiceAccountToken = nil }),
			held,
		)
		refuses(func() error {
			return managerAsAdmin().SubResource("token").
				Create(ctx, there.DeepCopy(), tokenRequest(), &client.SubResourceCreateOptions{})
		}, held)
	})
})

// callPod is the pod of a gated tool call, stored.
func callPod(ctx context.Context, definition *v1alpha1.Tool) *corev1.Pod {
	GinkgoHelper()
	definition.Spec.SideEffect = v1alpha1.SideEffectAtMostOnce
	turn := stored(ctx, admin, builder.Turn("called").In(teamA).Obj())
	job := stored(ctx, as(managerUser), callJob(turn, definition))
	return stored(ctx, as(jobController), podOf(job))
}
