package streaming

import (
	"context"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/internal/runtime/record"
)

// memories answers with a list of memories.
func (h *Handler) memories(ctx context.Context, r *request) {
	query := r.URL.Query()
	list, err := h.Resources.Memories(r.session).Page(ctx, query.Get("forgotten") == "true", query.Get("after"))
	if err != nil {
		h.serviceError(r.w, err, "the memory cannot be used now")
		return
	}
	respond(r.w, list)
}

// memory answers with a memory.
func (h *Handler) memory(ctx context.Context, r *request) {
	found, err := h.Resources.Memories(r.session).Get(ctx, r.PathValue("id"))
	switch {
	case err != nil:
		h.serviceError(r.w, err, "the memory cannot be used now")
	case found == nil:
		noMemory(r)
	default:
		respond(r.w, found.Public())
	}
}

// forget forgets a memory.
func (h *Handler) forget(ctx context.Context, r *request) {
	was, err := h.Resources.Memories(r.session).Forget(ctx, record.Cause{}, h.Clock(), r.PathValue("id"))
	switch {
	case err != nil:
		h.serviceError(r.w, err, "the memory cannot be used now")
	case !was:
		noMemory(r)
	default:
		headers(r.w, "application/json")
		r.w.WriteHeader(http.StatusNoContent)
	}
}

func noMemory(r *request) {
	answer(r.w, http.StatusNotFound, metav1.StatusReasonNotFound,
		fmt.Sprintf("there is no memory %.64q that is not forgotten", r.PathValue("id")))
}
