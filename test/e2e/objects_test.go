//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

const toolboxImage = "capstan.dev/toolbox:dev"

// namespaceLabels are on every namespace of the suite. All of them take restricted pods only.
var namespaceLabels = map[string]string{
	"app.kubernetes.io/part-of":          "capstan-e2e",
	"pod-security.kubernetes.io/enforce": "restricted",
}

// namespaces are those of the running spec.
var namespaces []string

// newNamespace returns a namespace of the spec's own. It stays when the spec fails, to be looked at.
func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-", Labels: namespaceLabels}}
	create(ctx, namespace)
	namespaces = append(namespaces, namespace.Name)
	DeferCleanup(func(ctx SpecContext) {
		if !CurrentSpecReport().Failed() {
			Expect(client.IgnoreNotFound(api.Delete(ctx, namespace))).To(Succeed())
		}
	}, NodeTimeout(time.Minute))
	return namespace.Name
}

// newStage returns a namespace with a simulated model that follows the script, the Tools, a Harness that offers them,
// and the Session demo.
func newStage(ctx context.Context, script v1alpha1.Simulation, tools ...*v1alpha1.Tool) string {
	GinkgoHelper()
	namespace := newNamespace(ctx)
	for _, object := range builder.Stage(namespace, script, tools...) {
		create(ctx, object)
	}
	create(ctx, builder.Session("demo").In(namespace).Obj())
	return namespace
}

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func keyOf(object client.Object) types.NamespacedName {
	return client.ObjectKeyFromObject(object)
}

func create(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Expect(api.Create(ctx, object)).To(Succeed())
}

// ask creates a Turn of Session demo.
func ask(ctx context.Context, namespace, name string) *v1alpha1.Turn {
	GinkgoHelper()
	turn := builder.Turn(name).In(namespace).Input("Please.").Obj()
	create(ctx, turn)
	return turn
}

// answered creates a Turn and waits for its response.
func answered(ctx context.Context, namespace, name string) *v1alpha1.Turn {
	GinkgoHelper()
	ask(ctx, namespace, name)
	return succeeded(ctx, namespace, name)
}

// succeeded waits for the response of a Turn.
func succeeded(ctx context.Context, namespace, name string) *v1alpha1.Turn {
	GinkgoHelper()
	Eventually(ctx, turn(namespace, name)).Should(capstantest.HaveSucceeded())
	return read(ctx, namespace, name)
}

// turn returns a function that reads a Turn, for Eventually.
func turn(namespace, name string) func(context.Context) (*v1alpha1.Turn, error) {
	return func(ctx context.Context) (*v1alpha1.Turn, error) {
		turn := &v1alpha1.Turn{}
		err := api.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, turn)
		return turn, err
	}
}

// read reads a Turn.
func read(ctx context.Context, namespace, name string) *v1alpha1.Turn {
	GinkgoHelper()
	found, err := turn(namespace, name)(ctx)
	Expect(err).NotTo(HaveOccurred())
	return found
}

// callOf is the call of a tool in the newest act step of a Turn.
func callOf(turn *v1alpha1.Turn, tool string) v1alpha1.ToolCall {
	GinkgoHelper()
	for _, call := range turn.Status.ToolCalls {
		if call.Name == tool {
			return call
		}
	}
	Fail("the Turn has no call of " + tool)
	return v1alpha1.ToolCall{}
}

// podsOf are the pods of a Turn.
func podsOf(ctx context.Context, turn *v1alpha1.Turn) []corev1.Pod {
	GinkgoHelper()
	var pods corev1.PodList
	Expect(
		api.List(
			ctx,
			&pods,
			client.InNamespace(turn.Namespace),
			client.MatchingLabels{v1alpha1.LabelTurnUID: string(turn.UID)},
		),
	).To(Succeed())
	return pods.Items
}

// jobsIn are the Jobs of a namespace.
func jobsIn(ctx context.Context, namespace string) []batchv1.Job {
	GinkgoHelper()
	var jobs batchv1.JobList
	Expect(api.List(ctx, &jobs, client.InNamespace(namespace))).To(Succeed())
	return jobs.Items
}

// toolStatus is the status of the tool's container; nil before there is any.
func toolStatus(pod *corev1.Pod) *corev1.ContainerStatus {
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].Name == v1alpha1.ToolContainerName {
			return &pod.Status.ContainerStatuses[i]
		}
	}
	return nil
}

// toolbox is a Tool that runs one of the toolbox.
func toolbox(name, command string, class v1alpha1.SideEffect) *v1alpha1.Tool {
	return &v1alpha1.Tool{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.ToolSpec{
			Description: "A tool of the tests.",
			SideEffect:  class,
			Job: &v1alpha1.JobTool{
				Image:           toolboxImage,
				ImagePullPolicy: corev1.PullIfNotPresent,
				Command:         []string{"/toolbox", command},
			},
		},
	}
}

// within gives the tool a timeout.
func within(limit time.Duration, tool *v1alpha1.Tool) *v1alpha1.Tool {
	tool.Spec.Job.Timeout = &metav1.Duration{Duration: limit}
	return tool
}

// calls is one step of a script.
type calls []v1alpha1.SimulatedToolCall

// slow makes the model take its time.
func slow(latency time.Duration, simulation v1alpha1.Simulation) v1alpha1.Simulation {
	simulation.Latency = &metav1.Duration{Duration: latency}
	return simulation
}

// arguments are those of a call, by name.
type arguments map[string]any

func call(name string, given arguments) v1alpha1.SimulatedToolCall {
	GinkgoHelper()
	raw, err := json.Marshal(given)
	Expect(err).NotTo(HaveOccurred())
	return v1alpha1.SimulatedToolCall{Name: name, Arguments: &v1alpha1.JSON{Raw: raw}}
}

// rawCall is a call whose arguments are passed on byte for byte.
func rawCall(name, text string) v1alpha1.SimulatedToolCall {
	return v1alpha1.SimulatedToolCall{Name: name, RawArguments: &text}
}
