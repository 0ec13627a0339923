package turn

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

func (w *world) finished() bool {
	switch w.turn().Status.Phase {
	case v1alpha1.TurnPhaseSucceeded, v1alpha1.TurnPhaseFailed, v1alpha1.TurnPhaseCancelled:
		return true
	default:
		return false
	}
}

// shows reports whether the status shows a call in a state.
func (w *world) shows(name string, state v1alpha1.ToolCallState) func() bool {
	return func() bool { return w.call(name).State == state }
}

// play runs the cluster: Jobs get pods, pods without a gate start, and pods of tools that end finish. It reports
// whether there was a change.
func (w *world) play() bool {
	w.t.Helper()
	return w.playAllBut("")
}

// playAllBut leaves out the pods of one tool once they exist.
func (w *world) playAllBut(name string) bool {
	w.t.Helper()
	played := false
	for _, job := range w.jobs() {
		pod := w.podOf(&job)
		switch {
		case pod == nil:
			w.makePod(&job)
		case w.toolOf(
			pod,
		) == name || gated(pod) || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
			continue
		case pod.Status.Phase != corev1.PodRunning:
			w.mu.Lock()
			w.sent[w.toolOf(pod)]++
			w.mu.Unlock()
			w.runs(pod)
		case strings.HasPrefix(w.toolOf(pod), "endless"):
			continue
		default:
			w.ends(pod, result.Report{Outcome: result.Exited, Started: true, Result: "result of " + w.toolOf(pod)})
		}
		played = true
	}
	return played
}

// starts returns how often the container of a tool was started.
func (w *world) starts(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent[name]
}

func (w *world) jobs() []batchv1.Job {
	w.t.Helper()
	var list batchv1.JobList
	if err := w.client.List(w.t.Context(), &list, client.InNamespace(testNamespace)); err != nil {
		w.t.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(j batchv1.Job) bool { return j.Labels[v1alpha1.LabelTurnUID] == "" })
}

// jobOf returns the Job of a tool; nil for none.
func (w *world) jobOf(name string) *batchv1.Job {
	for _, job := range w.jobs() {
		if job.Labels[v1alpha1.LabelCall] == fmt.Sprintf("1-%d", slices.Index(w.calls, name)) {
			return &job
		}
	}
	return nil
}

// toolOf returns the tool that a pod runs.
func (w *world) toolOf(pod *corev1.Pod) string {
	return w.toolOfCall(pod.Labels)
}

func (w *world) toolOfCall(labels map[string]string) string {
	for i, name := range w.calls {
		if labels[v1alpha1.LabelCall] == fmt.Sprintf("1-%d", i) {
			return name
		}
	}
	return ""
}

func (w *world) podOf(job *batchv1.Job) *corev1.Pod {
	w.t.Helper()
	var list corev1.PodList
	if err := w.client.List(w.t.Context(), &list, client.InNamespace(testNamespace)); err != nil {
		w.t.Fatal(err)
	}
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], job) {
			return &list.Items[i]
		}
	}
	return nil
}

func (w *world) makePod(job *batchv1.Job) *corev1.Pod {
	w.t.Helper()
	pod := &corev1.Pod{ObjectMeta: *job.Spec.Template.ObjectMeta.DeepCopy(), Spec: *job.Spec.Template.Spec.DeepCopy()}
	pod.Name = job.Name + "-x"
	pod.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job")),
	}
	w.create(pod)
	pod.Status.Phase = corev1.PodPending
	w.updateStatus(pod)
	return pod
}

func (w *world) runs(pod *corev1.Pod) {
	w.t.Helper()
	pod.Spec.NodeName = "node"
	if err := w.client.Update(w.t.Context(), pod); err != nil {
		w.t.Fatal(err)
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: v1alpha1.ToolContainerName, ContainerID: "test://1", ImageID: testImage,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(w.present())}},
	}}
	w.updateStatus(pod)
}

const testImage = "example.com/tool@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func (w *world) ends(pod *corev1.Pod, report result.Report) {
	w.t.Helper()
	message, _ := report.Encode(result.NewNonce())
	pod.Status.Phase = corev1.PodSucceeded
	if report.Exit != 0 {
		pod.Status.Phase = corev1.PodFailed
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: v1alpha1.ToolContainerName, ContainerID: "test://1", ImageID: testImage,
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: int32(
				report.Exit,
			),
			Message:    string(message),
			StartedAt:  metav1.NewTime(w.present()),
			FinishedAt: metav1.NewTime(w.present()),
		}},
	}}
	w.updateStatus(pod)
}

// deleteJob deletes a Job and its pod.
func (w *world) deleteJob(job *batchv1.Job) {
	w.t.Helper()
	if pod := w.podOf(job); pod != nil {
		if err := w.client.Delete(w.t.Context(), pod); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := w.client.Delete(w.t.Context(), job); err != nil {
		w.t.Fatal(err)
	}
}

// collect deletes the pods whose Job is gone.
func (w *world) collect() {
	w.t.Helper()
	owned := map[types.UID]bool{}
	for _, job := range w.jobs() {
		owned[job.UID] = true
	}
	var list corev1.PodList
	if err := w.client.List(w.t.Context(), &list, client.InNamespace(testNamespace)); err != nil {
		w.t.Fatal(err)
	}
	for i := range list.Items {
		if owner := metav1.GetControllerOf(&list.Items[i]); owner != nil && !owned[owner.UID] {
			if err := w.client.Delete(w.t.Context(), &list.Items[i]); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// answer creates the result of a client tool.
func (w *world) answer(name, text string) *v1alpha1.ToolResult {
	w.t.Helper()
	given := &v1alpha1.ToolResult{ObjectMeta: metav1.ObjectMeta{Name: "answer-" + name}, Spec: v1alpha1.ToolResultSpec{
		TurnRef: v1alpha1.TurnReference{
			Name: turnName,
		},
		CallID: fmt.Sprintf("1-%d", slices.Index(w.calls, name)),
		Result: &text,
	}}
	w.create(given)
	return given
}

// site adds a server to the world, whose requests are counted under the name of the tool.
func (w *world) site(name string, class v1alpha1.SideEffect) *v1alpha1.Tool {
	if w.server == nil {
		w.server = httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			w.mu.Lock()
			w.sent[strings.TrimPrefix(r.URL.Path, "/")]++
			w.mu.Unlock()
			name := strings.TrimPrefix(r.URL.Path, "/")
			text := "result of " + name
			if w.respond != nil {
				text = w.respond(name)
			}
			_, _ = io.WriteString(rw, text)
		}))
		w.t.Cleanup(w.server.Close)
	}
	return builder.HTTPTool(name, class, w.server.URL+"/"+name).Obj()
}
