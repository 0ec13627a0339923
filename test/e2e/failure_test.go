//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// logTail is how many lines of a log a failure shows.
const logTail = 80

// reportFailure adds to the report of a failed spec what one would ask for next: the Turns, what runs for them, and the
// manager's log.
func reportFailure(ctx context.Context) {
	for _, namespace := range namespaces {
		AddReportEntry("namespace "+namespace, ReportEntryVisibilityFailureOrVerbose, describeNamespace(ctx, namespace))
	}
	AddReportEntry("manager", ReportEntryVisibilityFailureOrVerbose, describeManagers(ctx))
}

func describeNamespace(ctx context.Context, namespace string) string {
	var b strings.Builder
	in := client.InNamespace(namespace)
	var turns v1alpha1.TurnList
	note(&b, api.List(ctx, &turns, in))
	for _, turn := range turns.Items {
		turn.Status.Output = cut(turn.Status.Output)
		status, err := yaml.Marshal(turn.Status)
		note(&b, err)
		fmt.Fprintf(&b, "Turn %s (%s)\n%s", turn.Name, turn.UID, indent(string(status)))
	}
	var sessions v1alpha1.SessionList
	note(&b, api.List(ctx, &sessions, in))
	for _, session := range sessions.Items {
		status, err := yaml.Marshal(session.Status)
		note(&b, err)
		fmt.Fprintf(&b, "Session %s\n%s", session.Name, indent(string(status)))
	}
	var pods corev1.PodList
	note(&b, api.List(ctx, &pods, in))
	for _, pod := range pods.Items {
		fmt.Fprintf(
			&b,
			"Pod %s, call %s: %s %s\n",
			pod.Name,
			pod.Labels[v1alpha1.LabelCall],
			pod.Status.Phase,
			pod.Status.Reason,
		)
		for _, status := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
			state, err := yaml.Marshal(status.State)
			note(&b, err)
			fmt.Fprintf(&b, "  container %s\n%s", status.Name, indent(indent(cut(string(state)))))
		}
	}
	var events corev1.EventList
	note(&b, api.List(ctx, &events, in))
	for _, e := range events.Items {
		fmt.Fprintf(&b, "Event of %s %s: %s: %s\n", e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Reason, e.Message)
	}
	return b.String()
}

// describeManagers shows the end of the log of every manager, and of the process before it in the same pod.
func describeManagers(ctx context.Context) string {
	var b strings.Builder
	pods, err := managerPods(ctx)
	note(&b, err)
	for _, pod := range pods {
		fmt.Fprintf(&b, "Pod %s: %s\n", pod.Name, pod.Status.Phase)
		restarted := false
		for _, status := range pod.Status.ContainerStatuses {
			restarted = restarted || status.RestartCount > 0
		}
		if restarted {
			fmt.Fprintf(&b, "log of the process before\n%s", managerLog(ctx, pod.Name, true))
		}
		fmt.Fprintf(&b, "log\n%s", managerLog(ctx, pod.Name, false))
	}
	return b.String()
}

func managerLog(ctx context.Context, pod string, previous bool) string {
	lines := int64(logTail)
	options := &corev1.PodLogOptions{TailLines: &lines, Previous: previous}
	text, err := clientset.CoreV1().Pods(managerNamespace).GetLogs(pod, options).DoRaw(ctx)
	if err != nil {
		return err.Error() + "\n"
	}
	return indent(withoutStart(string(text)))
}

// withoutStart returns the log of a manager without the lines that every start logs.
func withoutStart(log string) string {
	var b strings.Builder
	for line := range strings.Lines(log) {
		if !strings.Contains(line, `"msg":"Starting `) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// note adds an error to what is shown: a failure must not hide behind another one.
func note(b *strings.Builder, err error) {
	if err != nil {
		fmt.Fprintf(b, "(%v)\n", err)
	}
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n  ") + "\n"
}

// cut keeps long texts from burying the rest.
func cut(text string) string {
	const limit = 2048
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + fmt.Sprintf("... (%d bytes)", len(text))
}
