package jobspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// resourceDefaults are the requests and limits of a tool's container if its Tool sets none.
var resourceDefaults = []struct {
	name           corev1.ResourceName
	request, limit resource.Quantity
}{
	{corev1.ResourceCPU, resource.MustParse("10m"), resource.MustParse("1")},
	{corev1.ResourceMemory, resource.MustParse("32Mi"), resource.MustParse("256Mi")},
}

// resources completes the resources of a Tool. A default never contradicts it: if only one of request and limit is set,
// the default of the other is adjusted if they would clash.
func resources(given *v1alpha1.JobResources) corev1.ResourceRequirements {
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	if given != nil {
		for name, quantity := range given.Requests {
			requests[name] = quantity.DeepCopy()
		}
		for name, quantity := range given.Limits {
			limits[name] = quantity.DeepCopy()
		}
	}
	for _, standard := range resourceDefaults {
		request, limit := standard.request.DeepCopy(), standard.limit.DeepCopy()
		givenRequest, hasRequest := requests[standard.name]
		givenLimit, hasLimit := limits[standard.name]
		switch {
		case hasRequest && !hasLimit && givenRequest.Cmp(limit) > 0:
			limit = givenRequest.DeepCopy()
		case hasLimit && !hasRequest && givenLimit.Cmp(request) < 0:
			request = givenLimit.DeepCopy()
		}
		if !hasRequest {
			requests[standard.name] = request
		}
		if !hasLimit {
			limits[standard.name] = limit
		}
	}
	return corev1.ResourceRequirements{Requests: requests, Limits: limits}
}
