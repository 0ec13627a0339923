package servicepods

import (
	"context"
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/runtime/egress"
)

const (
	// pageSize and maxPages bound how many pods of a Service are read to find those that are Ready.
	pageSize = 50
	maxPages = 4
)

// Finder finds the pods behind Services. It is an egress.Services.
type Finder struct {
	// Live reads past the cache: a connection goes to a pod as it is now.
	Live client.Reader
}

var _ egress.Services = Finder{}

// +kubebuilder:rbac:groups="",resources=services,verbs=get
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list

// Backends implements egress.Services. Of a Service with many pods it returns some that are Ready, in random order.
func (f Finder) Backends(ctx context.Context, s egress.Service) ([]egress.Backend, error) {
	service := &corev1.Service{}
	err := f.Live.Get(ctx, types.NamespacedName{Namespace: s.Namespace, Name: s.Name}, service)
	switch {
	case apierrors.IsNotFound(err):
		return nil, egress.NewServiceError(true, "Service %q does not exist", s.Name)
	case apierrors.IsForbidden(err):
		return nil, egress.NewServiceError(true, "the manager has no permission to read Services in namespace %q: apply "+
			"the manifests of its version", s.Namespace)
	case err != nil:
		return nil, fmt.Errorf("reading Service %s: %w", s.Name, err)
	}
	port, problem := portOf(service, s.Port)
	if problem != nil {
		return nil, problem
	}
	found, err := f.ready(ctx, service, port)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, egress.NewServiceError(false, "Service %q has no pod that is Ready, and not on the network of its node",
			s.Name)
	}
	rand.Shuffle(len(found), func(i, j int) { found[i], found[j] = found[j], found[i] })
	return found, nil
}

// ready returns the ways to the pods of the first page that has any.
func (f Finder) ready(
	ctx context.Context, service *corev1.Service, port *corev1.ServicePort,
) ([]egress.Backend, error) {
	var found []egress.Backend
	var pods corev1.PodList
	for page := 0; page < maxPages && len(found) == 0 && (page == 0 || pods.Continue != ""); page++ {
		err := f.Live.List(ctx, &pods, client.InNamespace(service.Namespace),
			client.MatchingLabels(service.Spec.Selector), client.Limit(pageSize), client.Continue(pods.Continue),
			client.MatchingFieldsSelector{
				Selector: fields.OneTermEqualSelector("status.phase", string(corev1.PodRunning)),
			})
		if err != nil {
			return nil, fmt.Errorf("listing the pods of Service %s: %w", service.Name, err)
		}
		for i := range pods.Items {
			found = append(found, backendsOf(&pods.Items[i], service, port)...)
		}
	}
	return found, nil
}

// Confirm implements egress.Services.
func (f Finder) Confirm(ctx context.Context, s egress.Service, b egress.Backend) error {
	pod := &corev1.Pod{}
	err := f.Live.Get(ctx, types.NamespacedName{Namespace: s.Namespace, Name: b.Pod}, pod)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading pod %s of Service %s again: %w", b.Pod, s.Name, err)
	}
	if err != nil || !still(pod, b) {
		return egress.NewServiceError(false, "the pod of Service %q was replaced during the connection", s.Name)
	}
	return nil
}
