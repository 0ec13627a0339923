//go:build e2e

package e2e_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

const (
	// impatience is the start timeout of tools that are not going to start.
	impatience = 3 * time.Second
	// pullPatience is that of a tool whose node has to try first.
	pullPatience = 8 * time.Second
	// atOnce is how long a call may take whose end is certain from the start: far less than the start timeout of its tool.
	atOnce = 20 * time.Second
	// harmless is the text for the model about every call that never started.
	harmless = "It has changed nothing and may be called again."
)

// noRegistry is an image of a registry that cannot be reached: nothing listens on that port.
const noRegistry = "127.0.0.1:1/nothing:1"

// tooMuch is more than any node has.
var tooMuch = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1000")}

// both makes a table entry for each of two classes: calls that never started end alike, but are recognized by different
// signs.
var both = []v1alpha1.SideEffect{v1alpha1.SideEffectPure, v1alpha1.SideEffectAtMostOnce}

var _ = Describe("A tool call that never starts", func() {
	play := func(ctx SpecContext, e callOutcome) {
		e.state = v1alpha1.ToolCallStateNotExecuted
		e.texts = append(e.texts, "The tool was not executed", harmless)
		e.play(ctx)
	}

	DescribeTable("reports its reason to the model when", play,
		Entry("its command is not in the image", SpecTimeout(specLimit), callOutcome{
			tool:   commanding("/no-such-program", toolbox("work", "echo", v1alpha1.SideEffectAtMostOnce)),
			reason: v1alpha1.ToolCallReasonStartError,
			texts:  []string{`the command "/no-such-program" does not exist in the image`},
			limit:  atOnce,
		}),
		Entry("its image is not present and imagePullPolicy is Never", SpecTimeout(specLimit), callOutcome{
			tool:   from(noRegistry, corev1.PullNever, toolbox("work", "echo", v1alpha1.SideEffectAtMostOnce)),
			reason: v1alpha1.ToolCallReasonImagePull, texts: []string{"ErrImageNeverPull"}, limit: atOnce,
		}),
		Entry("a quota allows no Jobs", SpecTimeout(specLimit), callOutcome{
			tool:   toolbox("work", "echo", v1alpha1.SideEffectAtMostOnce),
			before: quota("count/jobs.batch"),
			reason: v1alpha1.ToolCallReasonQuotaExceeded,
			texts:  []string{"a quota of the namespace is exhausted", "count/jobs.batch=0"},
			limit:  atOnce,
			noJob:  true,
		}),
		Entry("a policy refuses its Job", SpecTimeout(specLimit), callOutcome{
			tool:   toolbox("work", "echo", v1alpha1.SideEffectAtMostOnce),
			before: noJobs,
			reason: v1alpha1.ToolCallReasonRefused,
			texts:  []string{"the cluster rejected it", "there are no Jobs on Sundays"},
			limit:  atOnce,
			noJob:  true,
		}),
	)

	for _, class := range both {
		impatient := func() *v1alpha1.Tool { return startingWithin(impatience, toolbox("work", "echo", class)) }
		DescribeTable("within its start timeout reports its reason to the model ("+string(class)+") when", play,
			Entry("its image cannot be pulled", SpecTimeout(specLimit), callOutcome{
				tool:   startingWithin(pullPatience, from(noRegistry, corev1.PullIfNotPresent, impatient())),
				reason: v1alpha1.ToolCallReasonImagePull,
				texts:  []string{"within " + pullPatience.String(), "its image could not be pulled"},
			}),
			Entry("no node has room for it", SpecTimeout(specLimit), callOutcome{
				tool:   with(tooMuch, impatient()),
				reason: v1alpha1.ToolCallReasonUnschedulable,
				texts:  []string{"within 3s", "its pod could not be scheduled", "Insufficient cpu"},
			}),
			Entry("a quota allows no pods", SpecTimeout(specLimit), callOutcome{
				tool:   impatient(),
				before: quota("pods"),
				reason: v1alpha1.ToolCallReasonQuotaExceeded,
				texts:  []string{"a quota of the namespace is exhausted", "pods=0"},
			}),
			Entry("a LimitRange of the namespace refuses its pod", SpecTimeout(specLimit), callOutcome{
				tool:   impatient(),
				before: smallPods,
				reason: v1alpha1.ToolCallReasonRefused,
				texts:  []string{"the cluster rejected it", "maximum memory usage per Container is 16Mi"},
			}),
			Entry("no object reports why it does not start", SpecTimeout(specLimit), callOutcome{
				tool: impatient(), before: noScheduler,
				reason: v1alpha1.ToolCallReasonStartTimeout, texts: []string{"within 3s, its container did not start"},
			}),
		)

	}

	It("because its pod was deleted reports so to the model (AtMostOnce)", SpecTimeout(specLimit), func(ctx SpecContext) {
		play(ctx, callOutcome{
			tool: with(tooMuch, toolbox("work", "echo", v1alpha1.SideEffectAtMostOnce)),
			meddle: func(ctx context.Context, turn *v1alpha1.Turn) {
				Expect(api.Delete(ctx, unschedulablePod(ctx, turn))).To(Succeed())
			},
			reason: v1alpha1.ToolCallReasonDisruption,
			texts:  []string{"its pod was removed before it had started"},
			limit:  atOnce,
		})
	})

	It(
		"because its Tool was changed after it was planned reports so to the model",
		SpecTimeout(specLimit),
		func(ctx SpecContext) {
			w := newToolServer(ctx)
			w.hold("first")
			first, second := toolbox(
				"first",
				"report",
				v1alpha1.SideEffectPure,
			), toolbox(
				"second",
				"echo",
				v1alpha1.SideEffectAtMostOnce,
			)
			first.Spec.ConcurrencyClass, second.Spec.ConcurrencyClass = "in-turn", "in-turn"
			namespace := newStage(
				ctx,
				builder.Script("{{tool:second}}", calls{w.call("first"), call("second", nil)}),
				first,
				second,
			)
			before := counted(ctx, v1alpha1.ToolCallStateNotExecuted, v1alpha1.ToolCallReasonToolChanged)
			ask(ctx, namespace, "demo-1")
			Eventually(ctx, w.started("first")).Should(BeTrue())
			patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"job":{"command":["/toolbox","sleep"]}}}`))
			Expect(api.Patch(ctx, second, patch)).To(Succeed())
			w.letGo("first")
			answer := succeeded(ctx, namespace, "demo-1")
			expectEnding(
				ctx,
				answer,
				"second",
				v1alpha1.ToolCallStateNotExecuted,
				v1alpha1.ToolCallReasonToolChanged,
				"The tool was not executed: it was changed or removed",
				harmless,
			)
			Expect(
				counted(ctx, v1alpha1.ToolCallStateNotExecuted, v1alpha1.ToolCallReasonToolChanged),
			).To(BeNumerically(">", before))
			Expect(callOf(answer, "first").State).To(Equal(v1alpha1.ToolCallStateSucceeded))
			Expect(jobsIn(ctx, namespace)).To(HaveLen(1))
		},
	)
})

// quota leaves a namespace no room for a resource, and waits until that holds.
func quota(name corev1.ResourceName) func(context.Context, string) {
	return func(ctx context.Context, namespace string) {
		GinkgoHelper()
		quota := &corev1.ResourceQuota{
			ObjectMeta: named(namespace, "none"),
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{name: resource.MustParse("0")}},
		}
		create(ctx, quota)
		Eventually(ctx, func(ctx context.Context) (corev1.ResourceList, error) {
			err := api.Get(ctx, client.ObjectKeyFromObject(quota), quota)
			return quota.Status.Hard, err
		}).Should(HaveKey(name))
	}
}

// smallPods lets a namespace have no container that may use more than 16 MiB.
func smallPods(ctx context.Context, namespace string) {
	GinkgoHelper()
	create(ctx, &corev1.LimitRange{
		ObjectMeta: named(namespace, "small"),
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("16Mi")},
		}}},
	})
}

// noJobs makes a policy that refuses every Job of a namespace, and waits until it holds.
func noJobs(ctx context.Context, namespace string) {
	GinkgoHelper()
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: namespace + "-no-jobs"},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: created("batch", "jobs"),
			Validations:      []admissionv1.Validation{{Expression: "false", Message: "there are no Jobs on Sundays"}},
		},
	}
	install(ctx, policy, &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: policy.Name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName:        policy.Name,
			ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			MatchResources:    onlyIn(namespace),
		},
	})
	probe := &batchv1.Job{
		ObjectMeta: named(namespace, "probe"),
		Spec:       batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: probeSpec()}},
	}
	Eventually(ctx, func(ctx context.Context) bool {
		err := api.Create(ctx, probe.DeepCopy(), client.DryRunAll)
		return apierrors.IsInvalid(err) || apierrors.IsForbidden(err)
	}).Should(BeTrue(), "the policy does not hold")
}

// noScheduler makes a policy that leaves the pods of a namespace to a scheduler that does not exist, and waits until it
// holds. No component ever reports anything about such a pod.
func noScheduler(ctx context.Context, namespace string) {
	GinkgoHelper()
	const missing = "missing"
	policy := &admissionv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: namespace + "-no-scheduler"},
		Spec: admissionv1.MutatingAdmissionPolicySpec{
			MatchConstraints:   created("", "pods"),
			ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
			Mutations: []admissionv1.Mutation{
				{
					PatchType: admissionv1.PatchTypeApplyConfiguration,
					ApplyConfiguration: &admissionv1.ApplyConfiguration{
						Expression: `Object{spec: Object.spec{schedulerName: "` + missing + `"}}`,
					},
				},
			},
		},
	}
	install(ctx, policy, &admissionv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: policy.Name},
		Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{
			PolicyName:     policy.Name,
			MatchResources: onlyIn(namespace),
		},
	})
	Eventually(ctx, func(ctx context.Context) (string, error) {
		probe := &corev1.Pod{ObjectMeta: named(namespace, "probe"), Spec: probeSpec()}
		err := api.Create(ctx, probe, client.DryRunAll)
		return probe.Spec.SchedulerName, err
	}).Should(Equal(missing), "the policy does not hold")
}

// created matches the creation of a kind of object.
func created(group, resource string) *admissionv1.MatchResources {
	return &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
		RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: []string{resource}},
		},
	}}}
}

// onlyIn matches what is in one namespace.
func onlyIn(namespace string) *admissionv1.MatchResources {
	return &admissionv1.MatchResources{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
	}
}

// install makes objects that belong to no namespace, for the rest of the spec.
func install(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	for _, object := range objects {
		create(ctx, object)
		DeferCleanup(func(ctx SpecContext) { Expect(api.Delete(ctx, object)).To(Succeed()) }, NodeTimeout(time.Minute))
	}
}

// probeSpec is a pod that every namespace of the suite takes.
func probeSpec() corev1.PodSpec {
	no, yes := false, true
	return corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot:   &yes,
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{Name: "probe", Image: toolboxImage, SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		}}},
	}
}
