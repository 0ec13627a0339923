package streaming

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/inspect"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/memory"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/sessionfs"
	"github.com/capstan-dev/capstan/internal/runtime/sessionimage"
	"github.com/capstan-dev/capstan/internal/runtime/stored"
)

const (
	// requestPlaces is how many requests that are no streams are served at once, and requestBytes the memory for them. A
	// namespace and a user get a quarter of both.
	requestPlaces, requestBytes = 16, 64 << 20
	// fileBytes, callsBytes and inspectBytes are what a request takes of it.
	fileBytes, callsBytes, inspectBytes = 2 << 20, 8 << 20, 16 << 20
	// requestTimeout bounds a request, and bodyTimeout the time in which its body must come and its answer be read.
	requestTimeout, bodyTimeout = 30 * time.Second, 30 * time.Second
	// requestCost is what a request counts in the share of requests to the API server.
	requestCost = 4
)

// Resources are what a Session has beside its events.
type Resources interface {
	// Files returns the files of a Session. Those that it begins with are not written for a reader.
	Files(ctx context.Context, session *v1alpha1.Session, writes bool) (*sessionfs.FS, error)
	// Stored returns what the services of a Session store beside its files.
	Stored(session *v1alpha1.Session) *stored.Services
	// Memories returns what the model of a Session remembers.
	Memories(session *v1alpha1.Session) *memory.Memories
	// Images returns the images of a Session.
	Images(ctx context.Context, session *v1alpha1.Session, writes bool) (*sessionimage.Images, error)
	// Inspect returns the input of the next model call of a Session. It runs nothing.
	Inspect(ctx context.Context, session *v1alpha1.Session) (*inspect.Context, error)
	// Calls returns the calls of the open step of a Turn with their whole arguments.
	Calls(ctx context.Context, session *v1alpha1.Session, turn *v1alpha1.Turn) ([]journal.PlannedCall, error)
}

// Requests are the places for requests that are no streams, by namespace and by user.
type Requests struct{ namespaces, users *fairshare.Pool }

// NewRequests returns places that are free.
func NewRequests() *Requests {
	places := func() *fairshare.Pool {
		return fairshare.NewPool(fairshare.Options{
			Total:        fairshare.Amount{Places: requestPlaces, Bytes: requestBytes},
			PerNamespace: fairshare.Amount{Places: requestPlaces / 4, Bytes: requestBytes / 4},
		})
	}
	return &Requests{places(), places()}
}

// hold takes a place for so many bytes, and reports whether one was free. A request does not wait: its caller can.
func (p *Requests) hold(namespace, user string, bytes int64) (release func(), ok bool) {
	amount := fairshare.Amount{Places: 1, Bytes: bytes}
	own := p.users.TryHold(user, amount)
	if own == nil {
		return nil, false
	}
	share := p.namespaces.TryHold(namespace, amount)
	if share == nil {
		own.Release()
		return nil, false
	}
	return func() {
		share.Release()
		own.Release()
	}, true
}

// request is a request about a Session, from a caller that may send it.
type request struct {
	*http.Request
	w       http.ResponseWriter
	session *v1alpha1.Session
	// turns of the Session that have not ended.
	turns []*v1alpha1.Turn
}

// about serves requests about a Session that take so many bytes of memory.
func (h *Handler) about(
	verb, subresource string, bytes int64, serve func(context.Context, *request),
) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		// The server reads what is left of a body when the handler has returned.
		defer func() { _ = control.SetReadDeadline(time.Now()) }()
		do := Action{Verb: verb, Subresource: subresource, Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
		caller := h.admit(w, r, do)
		if caller == nil {
			return
		}
		release, ok := h.Requests.hold(do.Namespace, caller.GetName(), bytes)
		if !ok {
			w.Header().Set("Retry-After", retryAfter)
			answer(w, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests,
				"the manager serves as many requests as it can, or as many of the namespace or of the user; try again")
			return
		}
		defer release()
		admitted(r.Context())
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		defer cancel()
		_ = control.SetReadDeadline(time.Now().Add(bodyTimeout))
		_ = control.SetWriteDeadline(time.Now().Add(requestTimeout + bodyTimeout))
		if h.Spend != nil {
			if err := h.Spend(ctx, do.Namespace, requestCost); err != nil {
				h.busy(w, err)
				return
			}
		}
		session, turns, err := h.Sessions.Session(ctx, do.Namespace, do.Name)
		if err != nil {
			h.failed(w, "the Session cannot be read", err)
			return
		}
		if session == nil {
			missing(w, do)
			return
		}
		serve(ctx, &request{Request: r, w: w, session: session, turns: turns})
	}
}

func missing(w http.ResponseWriter, do Action) {
	answer(w, http.StatusNotFound, metav1.StatusReasonNotFound,
		fmt.Sprintf("Session %q does not exist in the namespace %q", do.Name, do.Namespace))
}

// busy answers a request for which the API server could not be asked in time.
func (h *Handler) busy(w http.ResponseWriter, err error) {
	h.Log.V(1).Info("Failed to wait for the API server", "error", err.Error())
	w.Header().Set("Retry-After", retryAfter)
	answer(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable,
		"the manager has no room for a request to the API server; try again")
}

// failed answers a request that has failed for a reason that the caller must not see.
func (h *Handler) failed(w http.ResponseWriter, message string, err error) {
	h.Log.Info("Failed to answer a request about a Session", "error", err.Error())
	answer(w, http.StatusInternalServerError, metav1.StatusReasonInternalError, message)
}

// respond answers a request with an object.
func respond(w http.ResponseWriter, object any) {
	headers(w, "application/json")
	// A caller that is gone needs no answer.
	_ = json.NewEncoder(w).Encode(object)
}

// headers sets those of every answer: it is kept nowhere, and no browser takes it for a page.
func headers(w http.ResponseWriter, kind string) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
}

// body reads the body of a request with what a caller stores, and reports whether it has at most so many bytes. If it
// has not, the request is answered.
func (r *request) body(most int64, what string) ([]byte, bool) {
	var content []byte
	long := &http.MaxBytesError{}
	err := error(long)
	if r.ContentLength <= most {
		content, err = io.ReadAll(http.MaxBytesReader(r.w, r.Body, most))
	}
	switch {
	case errors.As(err, &long):
		answer(r.w, http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge,
			fmt.Sprintf("%s has at most %d bytes", what, most))
	case err != nil:
		answer(r.w, http.StatusBadRequest, metav1.StatusReasonBadRequest, "the body of the request ends too early")
	}
	return content, err == nil
}

// serviceError answers a request about a service of the Session that has failed. text is for an error that the caller
// cannot correct.
func (h *Handler) serviceError(w http.ResponseWriter, err error, text string) {
	var explained *record.ExplainedError
	switch {
	case errors.As(err, &explained):
		answer(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, explained.Error())
	case errors.Is(err, context.DeadlineExceeded):
		h.busy(w, err)
	default:
		h.failed(w, text, err)
	}
}
