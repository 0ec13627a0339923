package controller

import (
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/toolresult"
	"github.com/capstan-dev/capstan/internal/runtime/capability"
	"github.com/capstan-dev/capstan/internal/runtime/config"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/queue"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// CacheOptions select what the manager caches: only its own Jobs and pods, and of each object only the fields that
// decisions depend on. Tenants control the number and the size of the others: long messages and results, hints of
// clients, long system prompts, large definitions of Tools and scripts of Models, and foreign metadata. They are read
// live when a step needs them. Entries of the journal are never cached. Objects from this cache are incomplete: they
// are patched, never updated.
//
// With namespaces, the manager reads nothing outside of them, and needs no permissions there.
func CacheOptions(namespaces ...string) cache.Options {
	var only map[string]cache.Config
	for _, namespace := range namespaces {
		if only == nil {
			only = map[string]cache.Config{}
		}
		only[namespace] = cache.Config{}
	}
	ours := labels.SelectorFromSet(labels.Set{v1alpha1.LabelManagedBy: v1alpha1.ManagedByCapstan})
	return cache.Options{
		DefaultNamespaces: only,
		DefaultTransform:  stripMetadata,
		ByObject: map[client.Object]cache.ByObject{
			&batchv1.Job{}:         {Label: ours, Transform: stripJob},
			&corev1.Pod{}:          {Label: ours, Transform: stripPod},
			&v1alpha1.Harness{}:    {Transform: stripHarness},
			&v1alpha1.Agent{}:      {Transform: stripAgent},
			&v1alpha1.Capability{}: {Transform: stripCapability},
			&v1alpha1.Model{}:      {Transform: stripModel},
			&v1alpha1.Tool{}:       {Transform: stripTool},
			&v1alpha1.MCPServer{}:  {Transform: stripServer},
			&v1alpha1.Schedule{}:   {Transform: stripSchedule},
			&v1alpha1.Session{}:    {Transform: stripSession},
			&v1alpha1.Turn{}:       {Transform: stripTurn},
			&v1alpha1.ToolResult{}: {Transform: stripToolResult},
		},
	}
}

// ourPrefix begins the names of the labels and annotations that the manager reads.
const ourPrefix = "capstan.dev/"

// maxMetadataBytes bounds the labels, and the annotations, that are kept of an object. Users may write any number of
// them, also with our prefix.
const maxMetadataBytes = 1 << 10

// readKeys are the labels and annotations that decisions depend on. They are kept before all others.
var readKeys = []string{
	v1alpha1.LabelManagedBy, v1alpha1.LabelTurnUID, v1alpha1.LabelStep, v1alpha1.LabelCall, v1alpha1.LabelAttempt,
	v1alpha1.LabelTask,
	v1alpha1.AnnotationDefaultModel, v1alpha1.AnnotationFingerprint, v1alpha1.AnnotationReleasedAt,
	turnstate.AnnotationMessageBytes,
}

// stripMetadata drops metadata that is never read: managed fields, and foreign finalizers, labels, annotations and
// owners. The annotation of kubectl apply repeats the whole object.
func stripMetadata(object any) (any, error) {
	o, ok := object.(client.Object)
	if !ok {
		return object, nil
	}
	o.SetManagedFields(nil)
	var finalizers []string
	for _, ours := range []string{v1alpha1.FinalizerSessionEnd, v1alpha1.FinalizerLease} {
		if controllerutil.ContainsFinalizer(o, ours) {
			finalizers = append(finalizers, ours)
		}
	}
	o.SetFinalizers(finalizers)
	o.SetLabels(isOurs(o.GetLabels()))
	o.SetAnnotations(isOurs(o.GetAnnotations()))
	var owners []metav1.OwnerReference
	if owner := metav1.GetControllerOf(o); owner != nil {
		owners = append(owners, *owner)
	}
	o.SetOwnerReferences(owners)
	return object, nil
}

// isOurs returns the labels or annotations that are kept, up to maxMetadataBytes.
func isOurs(all map[string]string) map[string]string {
	keys := slices.Clone(readKeys)
	for key := range all {
		if strings.HasPrefix(key, ourPrefix) && !slices.Contains(readKeys, key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys[len(readKeys):])
	var kept map[string]string
	room := maxMetadataBytes
	for _, key := range keys {
		value, has := all[key]
		if !has || len(key)+len(value) > room {
			continue
		}
		if kept == nil {
			kept = map[string]string{}
		}
		kept[key] = value
		room -= len(key) + len(value)
	}
	return kept
}

// stripLayer drops a long system prompt, which is read live when a model is called, and initial files, which are
// read when they are written. It cuts names that no Tool can have, and configurations of capabilities that are too
// large to be used.
func stripLayer(layer *v1alpha1.ConfigLayer) {
	config.LeaveOutPrompt(layer)
	config.LeaveOutFiles(layer)
	config.ShortenToolNames(layer)
	capability.LeaveOutConfigs(layer.Capabilities)
}

// stripHarness drops the fields that stripLayer drops.
func stripHarness(object any) (any, error) {
	if harness, ok := object.(*v1alpha1.Harness); ok {
		stripLayer(&harness.Spec.ConfigLayer)
	}
	return stripMetadata(object)
}

// stripAgent drops the fields that stripLayer drops.
func stripAgent(object any) (any, error) {
	if agent, ok := object.(*v1alpha1.Agent); ok {
		stripLayer(&agent.Spec.ConfigLayer)
	}
	return stripMetadata(object)
}

// stripCapability drops the fields of a Capability that stripLayer drops of a layer, and its description.
func stripCapability(object any) (any, error) {
	if o, ok := object.(*v1alpha1.Capability); ok {
		config.LeaveOutCapability(o)
	}
	return stripMetadata(object)
}

// stripModel drops a large script of a simulated model: it is read live when the Model is called.
func stripModel(object any) (any, error) {
	if m, ok := object.(*v1alpha1.Model); ok {
		model.LeaveOut(m)
	}
	return stripMetadata(object)
}

// stripTool drops the texts of a large Tool: they are read live when a model is called, and when a call of the tool
// starts. The digest of the whole definition stays.
func stripTool(object any) (any, error) {
	if tool, ok := object.(*v1alpha1.Tool); ok {
		definition.LeaveOut(tool)
	}
	return stripMetadata(object)
}

// stripServer drops the url and the headers of an MCPServer if they are large: they are read live when its server is
// sent a request. Their digest stays.
func stripServer(object any) (any, error) {
	if server, ok := object.(*v1alpha1.MCPServer); ok {
		definition.LeaveOutConnection(server)
	}
	return stripMetadata(object)
}

// stripSession drops the fields that stripLayer drops, and keeps the labels, by which Budgets select it. It drops the
// title, the hints that the manager does not read, and the content of the hooks that are kept for the end of the
// Session: they are read live then.
func stripSession(object any) (any, error) {
	if session, ok := object.(*v1alpha1.Session); ok {
		stripLayer(&session.Spec.ConfigLayer)
		config.LeaveOutBlueprintConfig(session.Spec.Blueprint)
		turnstate.LeaveOutHints(session)
		session.Spec.Title = ""
		if hooks := session.Status.Hooks; hooks != nil {
			for i := range hooks.End {
				hooks.End[i].Hook = v1alpha1.Hook{}
			}
		}
	}
	session, ok := object.(*v1alpha1.Session)
	if !ok {
		return stripMetadata(object)
	}
	all := session.Labels
	stripped, err := stripMetadata(object)
	turnstate.KeepLabels(session, all)
	return stripped, err
}

// stripSchedule drops the message and the template of a Schedule: they are read live at a tick.
func stripSchedule(object any) (any, error) {
	if s, ok := object.(*v1alpha1.Schedule); ok {
		s.Spec.Turn = v1alpha1.ScheduledTurn{}
		if s.Spec.SessionTemplate != nil {
			s.Spec.SessionTemplate = &v1alpha1.SessionTemplate{}
		}
	}
	return stripMetadata(object)
}

// stripTurn drops all but the beginning of a Turn's message: it is read live once, when the Turn begins, and the
// journal has it when the first step is closed. Of a Turn that has ended it drops the large fields.
func stripTurn(object any) (any, error) {
	turn, ok := object.(*v1alpha1.Turn)
	if !ok {
		return stripMetadata(object)
	}
	if plan := turn.Status.Plan; plan != nil && plan.Step > 1 {
		turn.Spec.Input, turn.Spec.Message = turnstate.Excerpt(turn.Spec), nil
	} else {
		turnstate.LeaveOutMessage(turn)
	}
	if queue.Finished(turn) {
		turn.Spec.Input, turn.Spec.Message = "", nil
		turn.Status.Output = ""
		turn.Status.ToolCalls = waitingCalls(turn.Status.ToolCalls)
	}
	return stripMetadata(turn)
}

// waitingCalls returns of the calls of a Turn that has ended those that a late ToolResult may be for, with the fields
// by which it is judged.
func waitingCalls(calls []v1alpha1.ToolCall) []v1alpha1.ToolCall {
	var asked []v1alpha1.ToolCall
	for _, call := range calls {
		if call.Executor == v1alpha1.ToolExecutorClient || call.Policy == v1alpha1.ToolPolicyRequiresApproval {
			asked = append(asked, v1alpha1.ToolCall{
				ID: call.ID, Name: call.Name, Executor: call.Executor, Policy: call.Policy, Attempt: call.Attempt,
				State: call.State, Reason: call.Reason,
			})
		}
	}
	return slices.Clip(asked)
}

// stripToolResult drops the text of a ToolResult: a long text is read live when it settles a call, and the journal has
// the text once the ToolResult is accepted.
func stripToolResult(object any) (any, error) {
	result, ok := object.(*v1alpha1.ToolResult)
	if !ok {
		return stripMetadata(object)
	}
	if toolresult.Decided(result) {
		result.Spec.Result, result.Spec.Error, result.Spec.Reason = nil, nil, ""
	}
	turnstate.LeaveOutResult(result)
	return stripMetadata(result)
}

// stripJob drops the pod template of a Job, which has the texts of the Tool and the call's arguments. Only its account
// is read.
func stripJob(object any) (any, error) {
	job, ok := object.(*batchv1.Job)
	if !ok {
		return nil, fmt.Errorf("unexpected object in the cache of Jobs: %T", object)
	}
	account := job.Spec.Template.Spec.ServiceAccountName
	job.Spec.Template = corev1.PodTemplateSpec{Spec: corev1.PodSpec{ServiceAccountName: account}}
	return stripMetadata(job)
}

// stripPod drops all of a pod's spec but its node and its gates: it has the texts of the Tool.
func stripPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("unexpected object in the cache of pods: %T", object)
	}
	pod.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName, SchedulingGates: pod.Spec.SchedulingGates}
	return stripMetadata(pod)
}
