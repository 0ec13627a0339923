package gitops_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// The statuses that kstatus and Argo CD compute of an object, in this order.
const (
	// progressing: it is not there yet, and gets there by itself or once something else comes.
	progressing = "InProgress/Progressing"
	// suspended: it is not there yet, and a user must act.
	suspended = "InProgress/Suspended"
	// finished: it is as it should be.
	finished = "Current/Healthy"
	// failed: it will never be as it should be.
	failed = "Failed/Degraded"
	// terminating: it is being deleted.
	terminating = "Terminating/Progressing"
)

// judge returns the statuses that kstatus and Argo CD compute.
func judge(object *unstructured.Unstructured) string {
	GinkgoHelper()
	result, err := status.Compute(object)
	Expect(err).NotTo(HaveOccurred(), "%s", describe(object))
	return string(result.Status) + "/" + argo.health(object).Status
}

// truth returns the expected statuses of an object, from the fields of its status other than the conditions that exist
// for kstatus and Argo CD.
func expected(object *unstructured.Unstructured) string {
	switch kind := object.GetKind(); {
	case object.GetDeletionTimestamp() != nil:
		return terminating
	case kind == "JournalEntry" || kind == "Record":
		return finished
	case !observed(object):
		return progressing
	case kind == "Turn":
		return expectedOfTurn(object)
	case kind == "ToolResult":
		return map[string]string{
			"True": finished, "False": failed, "Unknown": progressing,
		}[conditionOf(object, v1alpha1.ConditionAccepted)["status"]]
	default:
		return expectedOfReady(object)
	}
}

// observed reports whether the status is about the spec as it is now. A status that was not written yet counts for any.
func observed(object *unstructured.Unstructured) bool {
	generation, found, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
	return !found || generation == object.GetGeneration()
}

func expectedOfTurn(object *unstructured.Unstructured) string {
	phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
	switch v1alpha1.TurnPhase(phase) {
	case v1alpha1.TurnPhaseSucceeded:
		return finished
	case v1alpha1.TurnPhaseFailed, v1alpha1.TurnPhaseCancelled:
		return failed
	case v1alpha1.TurnPhaseWaitingForToolResults:
		return suspended
	case v1alpha1.TurnPhaseQueued:
		if conditionOf(object, v1alpha1.ConditionSucceeded)["reason"] == v1alpha1.ReasonSuspended {
			return suspended
		}
		return progressing
	default:
		return progressing
	}
}

// hopeless are the reasons that only another spec ends.
var hopeless = []string{v1alpha1.ReasonInvalidSchema, v1alpha1.ReasonChainTooLong}

func expectedOfReady(object *unstructured.Unstructured) string {
	ready := conditionOf(object, v1alpha1.ConditionReady)
	switch {
	case ready["status"] == "True":
		return finished
	case ready["reason"] == v1alpha1.ReasonArchived:
		return suspended
	case slices.Contains(hopeless, ready["reason"]),
		object.GetKind() == "Model" && ready["reason"] == v1alpha1.ReasonModelNotReady:
		return failed
	default:
		return progressing
	}
}

// conditionOf returns the fields of a condition; none when it is not there.
func conditionOf(object *unstructured.Unstructured, kind string) map[string]string {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, element := range conditions {
		fields := map[string]string{}
		condition, _ := element.(map[string]any)
		for name, value := range condition {
			fields[name] = fmt.Sprint(value)
		}
		if fields["type"] == kind {
			return fields
		}
	}
	return nil
}

// describe shows an object for the report of a failure.
func describe(object *unstructured.Unstructured) string {
	text, err := json.MarshalIndent(object.Object["status"], "", "  ")
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf(
		"%s %s/%s at %s, generation %d: %s",
		object.GetKind(),
		object.GetNamespace(),
		object.GetName(),
		object.GetResourceVersion(),
		object.GetGeneration(),
		text,
	)
}

// healthEngine is Argo CD's, as a process that answers one line for each object that it is given.
type healthEngine struct {
	mu      sync.Mutex
	objects io.Writer
	answers *bufio.Scanner
}

type healthStatus struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

// startHealthEngine builds Argo CD's health engine and starts it with the health checks that are shipped.
func startHealthEngine() *healthEngine {
	GinkgoHelper()
	binary := filepath.Join(GinkgoT().TempDir(), "argocd")
	build := exec.CommandContext(context.Background(), "go", "-C", "argocd", "build", "-o", binary, ".")
	output, err := build.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s", output)

	engine := exec.CommandContext(context.Background(), binary, "../../config/argocd/argocd-cm.yaml")
	engine.Stderr = gexec.NewPrefixedWriter("argocd: ", GinkgoWriter)
	in, err := engine.StdinPipe()
	Expect(err).NotTo(HaveOccurred())
	out, err := engine.StdoutPipe()
	Expect(err).NotTo(HaveOccurred())
	Expect(engine.Start()).To(Succeed())
	DeferCleanup(func() {
		Expect(in.Close()).To(Succeed())
		Expect(engine.Wait()).To(Succeed())
	})
	return &healthEngine{objects: in, answers: bufio.NewScanner(out)}
}

// health asks the engine.
func (e *healthEngine) health(object *unstructured.Unstructured) healthStatus {
	GinkgoHelper()
	e.mu.Lock()
	defer e.mu.Unlock()
	Expect(json.NewEncoder(e.objects).Encode(object.Object)).To(Succeed())
	Expect(e.answers.Scan()).To(BeTrue(), "the health engine has ended: %v", e.answers.Err())
	var answer healthStatus
	Expect(json.Unmarshal(e.answers.Bytes(), &answer)).To(Succeed())
	return answer
}

// recorder keeps every version of every object that the API server shows to a watch.
type recorder struct {
	mu       sync.Mutex
	versions []*unstructured.Unstructured
	ended    []string
}

// startRecorder watches all kinds until the suite ends.
func startRecorder(config *rest.Config) *recorder {
	GinkgoHelper()
	c, err := client.NewWithWatch(config, client.Options{})
	Expect(err).NotTo(HaveOccurred())
	r := &recorder{}
	for _, kind := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind + "List"))
		watcher, err := c.Watch(context.Background(), list)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(watcher.Stop)
		go r.keep(kind, watcher)
	}
	return r
}

func (r *recorder) keep(kind string, watcher watch.Interface) {
	defer func() {
		r.mu.Lock()
		r.ended = append(r.ended, kind)
		r.mu.Unlock()
	}()
	for event := range watcher.ResultChan() {
		object, ok := event.Object.(*unstructured.Unstructured)
		if !ok || event.Type == watch.Deleted {
			continue
		}
		r.mu.Lock()
		r.versions = append(r.versions, object)
		r.mu.Unlock()
	}
}

// all returns every version that was seen.
func (r *recorder) all() []*unstructured.Unstructured {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.versions)
}

// history returns a function that returns the statuses of an object since it was created, without repetitions.
func (r *recorder) history(object client.Object) func() []string {
	return func() []string {
		var statuses []string
		for _, version := range r.all() {
			if version.GetUID() == object.GetUID() {
				statuses = append(statuses, judge(version))
			}
		}
		return slices.Compact(statuses)
	}
}
