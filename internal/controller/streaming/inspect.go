package streaming

import (
	"context"
	"errors"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/api/v1alpha1"
	internalstream "github.com/capstan-dev/capstan/internal/runtime/stream"
)

// maxArgumentBytes bounds the arguments of one answer.
const maxArgumentBytes = 2 << 20

// inspect answers with the input of the next model call (INSPECT-01).
func (h *Handler) inspect(ctx context.Context, r *request) {
	found, err := h.Resources.Inspect(ctx, r.session)
	if errors.Is(err, context.DeadlineExceeded) {
		h.busy(r.w, err)
		return
	}
	if err != nil {
		h.failed(r.w, "the Session cannot be inspected now", err)
		return
	}
	respond(r.w, found.Public())
}

// calls answers with the calls that wait for approval, of one Turn or one call if the parameters turn and call say so.
func (h *Handler) calls(ctx context.Context, r *request) {
	only, id := r.URL.Query().Get("turn"), r.URL.Query().Get("call")
	all, room := stream.WaitingCalls{Calls: []stream.WaitingCall{}}, maxArgumentBytes
	for _, turn := range r.turns {
		if only != "" && turn.Name != only || !waits(turn) {
			continue
		}
		planned, err := h.Resources.Calls(ctx, r.session, turn)
		if errors.Is(err, context.DeadlineExceeded) {
			h.busy(r.w, err)
			return
		}
		if err != nil {
			h.failed(r.w, "the calls of the Turn cannot be read now", err)
			return
		}
		arguments := make(map[string]string, len(planned))
		for i := range planned {
			arguments[planned[i].ID] = planned[i].Arguments
		}
		for i := range turn.Status.ToolCalls {
			call := &turn.Status.ToolCalls[i]
			whole, known := arguments[call.ID]
			if !awaitsApproval(call) || id != "" && call.ID != id || !known {
				continue
			}
			waiting := internalstream.WaitingCall(turn, call)
			if room -= len(whole); room >= 0 || len(all.Calls) == 0 {
				waiting.Arguments = whole
			} else {
				waiting.Omitted = true
			}
			all.Calls = append(all.Calls, waiting)
		}
	}
	respond(r.w, all)
}

// decide refuses a decision: only the API server knows by whom an object is created, and its policies decide about it.
func (h *Handler) decide(_ context.Context, r *request) {
	r.w.Header().Set("Allow", http.MethodGet)
	answer(r.w, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed,
		"a decision is a ToolResult: create it at the API server, whose policies know by whom it is made")
}

func waits(turn *v1alpha1.Turn) bool {
	for i := range turn.Status.ToolCalls {
		if awaitsApproval(&turn.Status.ToolCalls[i]) {
			return true
		}
	}
	return false
}

func awaitsApproval(call *v1alpha1.ToolCall) bool {
	return call.State == v1alpha1.ToolCallStateWaiting && call.Reason == v1alpha1.ReasonApproval
}
