package jobspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

func TestResourcesAreCompleteAndNeverContradictEachOther(t *testing.T) {
	list := func(pairs ...string) corev1.ResourceList {
		quantities := corev1.ResourceList{}
		for i := 0; i < len(pairs); i += 2 {
			quantities[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
		}
		return quantities
	}
	standardRequests, standardLimits := list("cpu", "10m", "memory", "32Mi"), list("cpu", "1", "memory", "256Mi")
	for name, c := range map[string]struct {
		given            *v1alpha1.JobResources
		requests, limits corev1.ResourceList
	}{
		"nothing": {nil, standardRequests, standardLimits},
		"empty":   {&v1alpha1.JobResources{}, standardRequests, standardLimits},
		"a small request": {
			&v1alpha1.JobResources{Requests: list("cpu", "500m")}, list("cpu", "500m", "memory", "32Mi"), standardLimits,
		},
		"a large request": {
			&v1alpha1.JobResources{Requests: list("memory", "1Gi")}, list("cpu", "10m", "memory", "1Gi"),
			list("cpu", "1", "memory", "1Gi"),
		},
		"a small limit": {
			&v1alpha1.JobResources{Limits: list("memory", "16Mi")}, list("cpu", "10m", "memory", "16Mi"),
			list("cpu", "1", "memory", "16Mi"),
		},
		"a large limit": {
			&v1alpha1.JobResources{Limits: list("cpu", "4")}, standardRequests, list("cpu", "4", "memory", "256Mi"),
		},
		"both": {
			&v1alpha1.JobResources{Requests: list("cpu", "2"), Limits: list("cpu", "3")}, list("cpu", "2", "memory", "32Mi"),
			list("cpu", "3", "memory", "256Mi"),
		},
		"another resource": {
			&v1alpha1.JobResources{Limits: list("example.org/gpu", "1")}, standardRequests,
			list("cpu", "1", "memory", "256Mi", "example.org/gpu", "1"),
		},
		"ephemeral storage": {
			&v1alpha1.JobResources{Requests: list("ephemeral-storage", "1Gi")},
			list("cpu", "10m", "memory", "32Mi", "ephemeral-storage", "1Gi"), standardLimits,
		},
		"a contradiction": {
			&v1alpha1.JobResources{Requests: list("cpu", "3"), Limits: list("cpu", "2")}, list("cpu", "3", "memory", "32Mi"),
			list("cpu", "2", "memory", "256Mi"),
		},
		"a limit of nothing": {
			&v1alpha1.JobResources{Limits: list("cpu", "0")}, list("cpu", "0", "memory", "32Mi"),
			list("cpu", "0", "memory", "256Mi"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := testParams()
			p.Tool.Job.Resources = c.given
			got := container(t, Build(p)).Resources
			if !equality.Semantic.DeepEqual(got.Requests, c.requests) || !equality.Semantic.DeepEqual(got.Limits, c.limits) {
				t.Errorf("requests %v, limits %v", got.Requests, got.Limits)
			}
		})
	}
}
