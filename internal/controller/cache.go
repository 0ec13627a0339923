package controller

import (
	"fmt"
	"maps"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/queue"
	"github.com/capstan-dev/capstan/internal/controller/toolresult"
	"github.com/capstan-dev/capstan/internal/runtime/host"
)

// CacheOptions select what the manager caches: only its own Jobs and pods, and of each object only the fields that
// decisions depend on. Messages and results beyond 2 KiB, hints of clients, and foreign annotations are not cached: a
// tenant can make them large and many. They are read live, once, when a step needs them. Entries of the journal are
// never cached. Objects from this cache are incomplete: they are patched, never updated.
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
			&v1alpha1.Session{}:    {Transform: stripSession},
			&v1alpha1.Turn{}:       {Transform: stripTurn},
			&v1alpha1.ToolResult{}: {Transform: stripToolResult},
		},
	}
}

// ourAnnotations is the prefix of the annotations that the manager reads.
const ourAnnotations = "capstan.dev/"

// stripMetadata drops metadata that is never read: managed fields, and foreign annotations, because the one of kubectl
// apply repeats the whole object.
func stripMetadata(object any) (any, error) {
	o, ok := object.(client.Object)
	if !ok {
		return object, nil
	}
	o.SetManagedFields(nil)
	annotations := o.GetAnnotations()
	maps.DeleteFunc(annotations, func(key, _ string) bool { return !strings.HasPrefix(key, ourAnnotations) })
	if len(annotations) == 0 {
		o.SetAnnotations(nil)
	}
	return object, nil
}

// stripSession drops the hints that the manager does not read.
func stripSession(object any) (any, error) {
	if session, ok := object.(*v1alpha1.Session); ok {
		host.LeaveOutHints(session)
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
		turn.Spec.Input, turn.Spec.Message = host.Excerpt(turn.Spec), nil
	} else {
		host.LeaveOutMessage(turn)
	}
	if queue.Finished(turn) {
		turn.Spec.Input, turn.Spec.Message = "", nil
		turn.Status.Output = ""
		for i := range turn.Status.ToolCalls {
			turn.Status.ToolCalls[i].Preview = ""
		}
	}
	return stripMetadata(turn)
}

// stripToolResult drops the text of a ToolResult: a long text is read live when it settles a call, and the journal has
// the text once the ToolResult is accepted.
func stripToolResult(object any) (any, error) {
	result, ok := object.(*v1alpha1.ToolResult)
	if !ok {
		return stripMetadata(object)
	}
	if toolresult.Decided(result) {
		result.Spec.Result, result.Spec.Error = nil, nil
	}
	host.LeaveOutResult(result)
	return stripMetadata(result)
}

// stripJob drops the pod template of a Job, which has the call's arguments and is never read.
func stripJob(object any) (any, error) {
	job, ok := object.(*batchv1.Job)
	if !ok {
		return nil, fmt.Errorf("the cache of Jobs got a %T", object)
	}
	delete(job.Spec.Template.Annotations, v1alpha1.AnnotationArguments)
	job.Spec.Template.Spec.Volumes = nil
	return stripMetadata(job)
}

// stripPod drops the call's arguments from a pod: they are never read.
func stripPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("the cache of pods got a %T", object)
	}
	delete(pod.Annotations, v1alpha1.AnnotationArguments)
	pod.Spec.Volumes = nil
	return stripMetadata(pod)
}
