package streaming

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/record"
)

// stored answers with a list of what a service of the Session stores, or all services.
func (h *Handler) stored(ctx context.Context, r *request) {
	name := r.PathValue("service")
	items, err := h.Resources.Stored(r.session).List(ctx, name)
	switch {
	case err != nil:
		h.storageError(r.w, err)
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
		h.storageError(r.w, err)
	case item == nil:
		answer(r.w, http.StatusNotFound, metav1.StatusReasonNotFound,
			fmt.Sprintf("the service %.64q has no key %.256q", name, key))
	default:
		respond(r.w, item)
	}
}

// storageError answers a request about a service that has failed.
func (h *Handler) storageError(w http.ResponseWriter, err error) {
	var explained *record.ExplainedError
	switch {
	case errors.As(err, &explained):
		answer(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, explained.Error())
	case errors.Is(err, context.DeadlineExceeded):
		h.busy(w, err)
	default:
		h.failed(w, "the storage of the Session cannot be used now", err)
	}
}
