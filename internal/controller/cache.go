package controller

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
)

// CacheOptions say what the manager keeps in memory: of Jobs and pods only our own, and of finished Turns only what admission and
// clean-up read. Entries of the log are never cached here. Objects from this cache are incomplete: they are patched, never updated.
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
		DefaultTransform:  stripManagedFields,
		ByObject: map[client.Object]cache.ByObject{
			&batchv1.Job{}:   {Label: ours, Transform: stripJob},
			&corev1.Pod{}:    {Label: ours, Transform: stripPod},
			&v1alpha1.Turn{}: {Transform: stripFinishedTurn},
		},
	}
}

func stripManagedFields(object any) (any, error) {
	if o, ok := object.(client.Object); ok {
		o.SetManagedFields(nil)
	}
	return object, nil
}

// stripFinishedTurn drops the bulk of a Turn that has ended.
func stripFinishedTurn(object any) (any, error) {
	turn, ok := object.(*v1alpha1.Turn)
	if !ok {
		return stripManagedFields(object)
	}
	turn.ManagedFields = nil
	if condition.IsTrue(turn.Status.Conditions, v1alpha1.ConditionFinished) {
		turn.Spec.Input, turn.Spec.Message = "", nil
		turn.Status.Output = ""
		for i := range turn.Status.ToolCalls {
			turn.Status.ToolCalls[i].Preview = ""
		}
	}
	return turn, nil
}

// stripJob drops what nobody reads of a Job: the pod template with the call's arguments.
func stripJob(object any) (any, error) {
	job, ok := object.(*batchv1.Job)
	if !ok {
		return nil, fmt.Errorf("the cache of Jobs got a %T", object)
	}
	job.ManagedFields = nil
	delete(job.Spec.Template.Annotations, v1alpha1.AnnotationArguments)
	job.Spec.Template.Spec.Volumes = nil
	return job, nil
}

// stripPod drops what nobody reads of a pod: the call's arguments.
func stripPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("the cache of pods got a %T", object)
	}
	pod.ManagedFields = nil
	delete(pod.Annotations, v1alpha1.AnnotationArguments)
	pod.Spec.Volumes = nil
	return pod, nil
}
