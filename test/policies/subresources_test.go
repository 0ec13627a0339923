package policies_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/test/internal/suite"
)

// podRights lets a user read pods and write one of their subresources.
func podRights(subresource string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}},
		{APIGroups: []string{""}, Resources: []string{"pods/" + subresource}, Verbs: []string{"update", "patch"}},
	}
}

var _ = Describe("The policy pods", func() {
	// plain is a pod that has nothing to do with Capstan.
	plain := func(ctx context.Context) *corev1.Pod {
		pod := podOf(plainJob("own"))
		pod.OwnerReferences = nil
		return stored(ctx, admin, pod)
	}

	It("lets no user debug the pod of a tool call", func(ctx context.Context) {
		user, _ := newUser(ctx, newRole(ctx, podRights("ephemeralcontainers")...))
		debug := func(pod *corev1.Pod) func() error {
			return func() error {
				changed := pod.DeepCopy()
				restricted := changed.Spec.Containers[0].SecurityContext.DeepCopy()
				changed.Spec.EphemeralContainers = []corev1.EphemeralContainer{
					{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
						Name: "debug", Image: "example.org/debug:1", SecurityContext: restricted,
					}},
				}
				return user.SubResource("ephemeralcontainers").Update(ctx, changed, client.DryRunAll)
			}
		}
		accepts(debug(plain(ctx)))
		refuses(
			debug(callPod(ctx, newTool("tool"))),
			"containers cannot be added to the pod of a tool call, and it cannot be resized.",
		)
	})

	It("lets no user resize the pod of a tool call", func(ctx context.Context) {
		user, _ := newUser(ctx, newRole(ctx, podRights("resize")...))
		resize := func(pod *corev1.Pod) func() error {
			return func() error {
				changed := pod.DeepCopy()
				changed.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
					corev1.ResourceMemory: resource.MustParse("16Mi"),
				}
				return user.SubResource("resize").Update(ctx, changed, client.DryRunAll)
			}
		}
		refuses(
			resize(callPod(ctx, newTool("tool"))),
			"containers cannot be added to the pod of a tool call, and it cannot be resized.",
		)
	})

	It("lets only the kubelet write the status of the pod of a tool call", func(ctx context.Context) {
		const refusal = "only the cluster may write the status of the pod of a tool call, which has the result of the call."
		user, _ := newUser(ctx, newRole(ctx, podRights("status")...))
		patchStatus := func(c client.Client, pod *corev1.Pod) func() error {
			patch := client.RawPatch(types.StrategicMergePatchType, []byte(`{"status":{"message":"forged"}}`))
			return func() error { return c.Status().Patch(ctx, pod.DeepCopy(), patch, client.DryRunAll) }
		}
		pod := callPod(ctx, newTool("tool"))
		accepts(patchStatus(user, plain(ctx)))
		refuses(patchStatus(user, pod), refusal)
		refuses(patchStatus(admin, pod), refusal)
		// A kubelet may write about the pods that are bound to its node only: the suite on the real cluster has one.
		for account, groups := range map[string][]string{
			"system:kube-scheduler":                                   {"system:masters"},
			"system:kube-controller-manager":                          {"system:masters"},
			"system:serviceaccount:kube-system:pod-garbage-collector": {"system:serviceaccounts:kube-system", "system:masters"},
		} {
			By(account)
			accepts(patchStatus(suite.Client(impersonating(account, groups...)), pod))
		}
	})

	It("lets no user label the pod of a tool call without network, nor its Job", func(ctx context.Context) {
		const refusal = "labels cannot be added to the pod of a tool call without network access: a NetworkPolicy could " +
			"select it by them."
		user, _ := newUser(ctx, clusterEdit)
		cut := newTool("tool")
		cut.Spec.Job.Network, cut.Spec.SideEffect = v1alpha1.NetworkReachNone, v1alpha1.SideEffectAtMostOnce
		turn := stored(ctx, admin, builder.Turn("cut").In(teamA).Obj())
		job := stored(ctx, as(managerUser), callJob(turn, cut))
		pod := stored(ctx, as(jobController), podOf(job))
		accepts(updating(ctx, user, pod, func(p *corev1.Pod) { p.Annotations["team"] = "a" }))
		refuses(updating(ctx, user, pod, func(p *corev1.Pod) { p.Labels["team"] = "a" }), refusal)
		accepts(updating(ctx, user, job, func(j *batchv1.Job) { j.Labels["team"] = "a" }))
		refuses(updating(ctx, user, job, func(j *batchv1.Job) { j.Spec.Template.Labels["team"] = "a" }), refusal)
	})
})

var _ = Describe("The policy job-pods", func() {
	It("lets no user add a pod to the Job of a tool call", func(ctx context.Context) {
		const refusal = "this pod would count as a pod of the Job of a tool call"
		user, _ := newUser(ctx, clusterEdit)
		turn := stored(ctx, admin, builder.Turn("adopting").In(teamA).Obj())
		job := stored(ctx, as(managerUser), callJob(turn, newTool("tool")))
		own := stored(ctx, user, func() *batchv1.Job { j := plainJob("own-job"); j.Spec.Suspend = ptr.To(true); return j }())
		slip := func(of *batchv1.Job) *corev1.Pod {
			pod := podOf(plainJob("slipped"))
			pod.OwnerReferences, pod.Labels = nil, map[string]string{batchv1.ControllerUidLabel: string(of.UID)}
			return pod
		}
		Expect(job.Spec.Selector.MatchLabels).To(Equal(map[string]string{batchv1.ControllerUidLabel: string(job.UID)}),
			"the Job controller adopts by this label alone")
		refuses(creating(ctx, user, slip(job)), refusal)
		refuses(creating(ctx, admin, slip(job)), refusal)
		accepts(creating(ctx, user, slip(own)))
		accepts(creating(ctx, as(jobController), slip(own)))
		plain := podOf(plainJob("later"))
		plain.OwnerReferences = nil
		stored(ctx, user, plain)
		refuses(updating(ctx, user, plain, func(p *corev1.Pod) {
			p.Labels = map[string]string{batchv1.ControllerUidLabel: string(job.UID)}
		}), refusal)
		disguised := slip(job)
		disguised.Labels[v1alpha1.LabelTurnUID] = string(turn.UID)
		refuses(creating(ctx, user, disguised), "only the Job controller may create pods of tool calls.")
		accepts(creating(ctx, as(jobController), podOf(job)))
	})
})
