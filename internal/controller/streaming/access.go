package streaming

import (
	"context"
	"encoding/json"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authentication/user"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Action is what a caller wants to do.
type Action struct {
	// Verb, such as get.
	Verb string
	// Subresource of the Session, such as events.
	Subresource string
	// Namespace and Name of the Session.
	Namespace, Name string
}

// Authorizer decides who may do what, as the API server would.
type Authorizer struct {
	// Reviews are the SubjectAccessReviews.
	Reviews authorizationclient.SubjectAccessReviewInterface
	// Wait waits until a request to the API server may be made in the share of a user; nil for no bound.
	Wait func(ctx context.Context, share string) error

	decisions *utilcache.LRUExpireCache
}

// NewAuthorizer returns an Authorizer.
func NewAuthorizer(a Authorizer) *Authorizer {
	a.decisions = utilcache.NewLRUExpireCache(maxReviews)
	return &a
}

// Allowed reports whether a user may do something to a Session.
func (a *Authorizer) Allowed(ctx context.Context, who user.Info, do Action) (bool, error) {
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: who.GetName(), UID: who.GetUID(), Groups: who.GetGroups(),
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: do.Verb, Group: v1alpha1.GroupVersion.Group, Version: v1alpha1.GroupVersion.Version, Resource: "sessions",
			Subresource: do.Subresource, Namespace: do.Namespace, Name: do.Name,
		},
	}
	for key, values := range who.GetExtra() {
		if spec.Extra == nil {
			spec.Extra = map[string]authorizationv1.ExtraValue{}
		}
		spec.Extra[key] = values
	}
	raw, err := json.Marshal(spec)
	if err != nil {
		return false, fmt.Errorf("encoding the attributes of a request: %w", err)
	}
	key := string(raw)
	if kept, ok := a.decisions.Get(key); ok {
		return kept == true, nil
	}
	if a.Wait != nil {
		if err := a.Wait(ctx, shareOf(who)); err != nil {
			return false, fmt.Errorf("waiting to review the access: %w", err)
		}
	}
	review, err := a.Reviews.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("reviewing the access: %w", err)
	}
	allowed := review.Status.Allowed && !review.Status.Denied
	a.decisions.Add(key, allowed, keepReview)
	return allowed, nil
}
