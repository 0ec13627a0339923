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

// CacheOptions say what the manager keeps in memory: of Jobs and pods only our own, and of each object only what
// decisions are made from. Messages and results beyond 2 KiB, hints of clients, and annotations of others are not kept: a
// tenant can make them large and many. They are read live, once, when a step needs them. Entries of the journal are never cached. Objects from
// this cache are incomplete: they are patched, never updated.
//
// With namespaces, the manager sees nothing outside of these, and needs no right there.
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

// ourAnnotations begins the keys of the annotations that the manager reads.
const ourAnnotations = "capstan.dev/"

// stripMetadata drops what is not read of any object: managed fields, and annotations of others, of which the one that
// kubectl apply writes repeats the whole object.
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

// stripSession drops the hints that are the client's own.
func stripSession(object any) (any, error) {
	if session, ok := object.(*v1alpha1.Session); ok {
		host.LeaveOutHints(session)
	}
	return stripMetadata(object)
}

// stripTurn drops all but the beginning of a Turn's message: it is read live once, when the Turn begins, and the journal
// has it when the first step is closed. Of a Turn that has ended it drops the bulk.
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

// stripToolResult drops what a ToolResult gives: a long text is read live when a call takes it, and the journal has any
// text once the ToolResult was accepted.
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

// stripJob drops what nobody reads of a Job: the pod template with the call's arguments.
func stripJob(object any) (any, error) {
	job, ok := object.(*batchv1.Job)
	if !ok {
		return nil, fmt.Errorf("the cache of Jobs got a %T", object)
	}
	delete(job.Spec.Template.Annotations, v1alpha1.AnnotationArguments)
	job.Spec.Template.Spec.Volumes = nil
	return stripMetadata(job)
}

// stripPod drops what nobody reads of a pod: the call's arguments.
func stripPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("the cache of pods got a %T", object)
	}
	delete(pod.Annotations, v1alpha1.AnnotationArguments)
	pod.Spec.Volumes = nil
	return stripMetadata(pod)
}
