package streaming

import (
	"context"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
)

// stored answers with a list of what a service of the Session stores, or all services.
func (h *Handler) stored(ctx context.Context, r *request) {
	name := r.PathValue("service")
	items, err := h.Resources.Stored(r.session).List(ctx, name)
	switch {
	case err != nil:
		h.serviceError(r.w, err, "the storage of the Session cannot be used now")
	case items == nil:
		answer(r.w, http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("the service %.64q does not exist", name))
	default:
		respond(r.w, stream.StoredList{Items: items})
	}
}

// item answers with what a service of the Session stores under a key.
func (h *Handler) item(ctx context.Context, r *request) {
	name, key := r.PathValue("service"), r.PathValue("key")
	item, err := h.Resources.Stored(r.session).Read(ctx, name, key)
	switch {
	case err != nil:
		h.serviceError(r.w, err, "the storage of the Session cannot be used now")
	case item == nil:
		answer(r.w, http.StatusNotFound, metav1.StatusReasonNotFound,
			fmt.Sprintf("the service %.64q has no key %.256q", name, key))
	default:
		respond(r.w, item)
	}
}
