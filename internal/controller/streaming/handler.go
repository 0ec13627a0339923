package streaming

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/feed"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

const (
	// reviewTimeout bounds the reviews of a request.
	reviewTimeout = 10 * time.Second
	// retryAfter is what a caller is asked to wait if there are too many.
	retryAfter = "5"
)

// Sessions finds Sessions.
type Sessions interface {
	// Session returns a Session with its Turns that have not ended; nil if it does not exist.
	Session(ctx context.Context, namespace, name string) (*v1alpha1.Session, []*v1alpha1.Turn, error)
}

// Handler answers requests.
type Handler struct {
	// Authenticator and Authorizer decide who may follow.
	Authenticator *Authenticator
	Authorizer    *Authorizer
	// Sessions finds Sessions.
	Sessions Sessions
	// Hub has the events.
	Hub *feed.Hub
	// Resources are what a Session has beside its events; nil to serve events alone.
	Resources Resources
	// Requests are the places for requests that are no streams, and Spend waits until they may make requests to the API
	// server; nil for no bound.
	Requests *Requests
	Spend    func(ctx context.Context, namespace string, requests int64) error
	// Clock returns the current time.
	Clock func() time.Time
	// Log receives what operators should know. It never has credentials.
	Log logr.Logger
	// Intervals of a stream. Default: those of the documentation.
	Intervals Intervals
}

// Register adds the paths of the handler.
func (h *Handler) Register(mux *http.ServeMux) {
	const session = " /v1/namespaces/{namespace}/sessions/{name}/"
	mux.HandleFunc("GET"+session+"events", withoutBody(h.events))
	if h.Resources != nil {
		read := withoutBody(h.about("get", "files", fileBytes, h.read))
		mux.HandleFunc("GET"+session+"files", read)
		mux.HandleFunc("GET"+session+"files/{path...}", read)
		mux.HandleFunc("PUT"+session+"files/{path...}", h.about("update", "files", fileBytes, h.write))
		mux.HandleFunc("DELETE"+session+"files/{path...}", withoutBody(h.about("delete", "files", fileBytes, h.remove)))
		stored := withoutBody(h.about("get", "storage", fileBytes, h.stored))
		mux.HandleFunc("GET"+session+"storage", stored)
		mux.HandleFunc("GET"+session+"storage/{service}", stored)
		mux.HandleFunc("GET"+session+"storage/{service}/{key...}", withoutBody(h.about("get", "storage", fileBytes, h.item)))
		memories := withoutBody(h.about("get", "memory", callsBytes, h.memories))
		mux.HandleFunc("GET"+session+"memory", memories)
		mux.HandleFunc("GET"+session+"memory/{id}", withoutBody(h.about("get", "memory", fileBytes, h.memory)))
		mux.HandleFunc("DELETE"+session+"memory/{id}",
			withoutBody(h.about("delete", "memory", fileBytes, h.forget)))
		h.registerImages(mux, session+"images")
		mux.HandleFunc("GET"+session+"inspect", withoutBody(h.about("get", "inspect", inspectBytes, h.inspect)))
		mux.HandleFunc("GET"+session+"calls", withoutBody(h.about("approve", "calls", callsBytes, h.calls)))
		mux.HandleFunc("POST"+session+"calls", h.about("approve", "calls", fileBytes, h.decide))
	}
	mux.HandleFunc("/", withoutBody(func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusNotFound, metav1.StatusReasonNotFound,
			"only events, files, storage, memory, images, inspect and calls of /v1/namespaces/{namespace}/sessions/{name} exist")
	}))
}

// registerImages adds the paths for images.
func (h *Handler) registerImages(mux *http.ServeMux, path string) {
	mux.HandleFunc("GET"+path, withoutBody(h.about("get", "images", fileBytes, h.images)))
	mux.HandleFunc("POST"+path, h.about("create", "images", imageBytes, h.store))
	mux.HandleFunc("GET"+path+"/{id}", withoutBody(h.about("get", "images", imageBytes, h.image)))
	mux.HandleFunc("DELETE"+path+"/{id}", withoutBody(h.about("delete", "images", fileBytes, h.removeImage)))
}

// withoutBody refuses a request that announces a body: the server would wait for the rest of it, in a connection that
// no limit counts any more.
func withoutBody(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 {
			next(w, r)
			return
		}
		// The server reads what is left of a body when the handler has returned.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now())
		answer(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, "the request must have no body")
	}
}

// admit authenticates and authorizes a request, and returns its caller; nil if it was answered.
func (h *Handler) admit(w http.ResponseWriter, r *http.Request, do Action) *Caller {
	ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
	defer cancel()
	caller, err := h.Authenticator.Authenticate(r.WithContext(ctx))
	if errors.Is(err, errUnauthenticated) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		answer(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, err.Error())
		return nil
	}
	allowed := false
	if err == nil {
		allowed, err = h.Authorizer.Allowed(ctx, caller, do)
	}
	switch {
	case err != nil:
		h.Log.Info("Failed to review a request about a Session", "error", err.Error())
		w.Header().Set("Retry-After", retryAfter)
		answer(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable,
			"the API server cannot be asked whether the request is allowed; try again")
		return nil
	case !allowed:
		answer(w, http.StatusForbidden, metav1.StatusReasonForbidden, forbidden(caller, do))
		return nil
	}
	return caller
}

func forbidden(caller *Caller, do Action) string {
	return fmt.Sprintf("User %q cannot %s resource \"sessions/%s\" in API group %q in the namespace %q",
		caller.GetName(), do.Verb, do.Subresource, v1alpha1.GroupVersion.Group, do.Namespace)
}

// events answers a request for the events of a Session.
func (h *Handler) events(w http.ResponseWriter, r *http.Request) {
	do := Action{
		Verb: "get", Subresource: "events", Namespace: r.PathValue("namespace"), Name: r.PathValue("name"),
	}
	after, err := afterOf(r)
	if err != nil {
		answer(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	caller := h.admit(w, r, do)
	if caller == nil {
		return
	}
	session, turns, err := h.Sessions.Session(r.Context(), do.Namespace, do.Name)
	if err != nil {
		h.Log.Info("Failed to read a Session for its events", "error", err.Error())
		answer(w, http.StatusInternalServerError, metav1.StatusReasonInternalError, "the Session cannot be read")
		return
	}
	if session == nil {
		missing(w, do)
		return
	}
	subscription, err := h.Hub.Subscribe(feed.Request{
		Session: journal.Session{Namespace: session.Namespace, Name: session.Name, UID: session.UID},
		User:    caller.GetName(), After: after, Head: session.Status.Journal.Head, Turns: turns,
	})
	if err != nil {
		refuse(w, err)
		return
	}
	defer subscription.Close()
	// A Session that was deleted before the subscription began ends it.
	current, _, err := h.Sessions.Session(r.Context(), do.Namespace, do.Name)
	if err == nil && (current == nil || current.UID != session.UID) {
		h.Hub.End(session.UID, stream.EndedSessionDeleted)
	}
	admitted(r.Context())
	s := &sending{
		Handler: h, subscription: subscription, request: r, caller: caller, action: do, w: w,
		control: http.NewResponseController(w), session: journal.Session{
			Namespace: session.Namespace, Name: session.Name, UID: session.UID,
		},
	}
	s.run(r.Context())
}

// afterOf returns the sequence number after which a caller wants the events: the parameter, or the header that browsers
// and other clients of server-sent events send when they connect again.
func afterOf(r *http.Request) (int64, error) {
	text := r.URL.Query().Get("after")
	if text == "" {
		text = strings.TrimSpace(r.Header.Get("Last-Event-ID"))
	}
	if text == "" {
		return 0, nil
	}
	after, err := strconv.ParseInt(text, 10, 64)
	if err != nil || after < 0 {
		return 0, errors.New("after, or Last-Event-ID, must be the sequence number of an event")
	}
	return after, nil
}

// refuse answers a request for which there is no room.
func refuse(w http.ResponseWriter, err error) {
	w.Header().Set("Retry-After", retryAfter)
	var limit *feed.LimitError
	if errors.As(err, &limit) && !limit.Total() {
		answer(w, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, err.Error())
		return
	}
	answer(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, err.Error())
}

// answer answers with a Status, as the API server does.
func answer(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	headers(w, "application/json")
	w.WriteHeader(code)
	// A caller that is gone needs no answer.
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Code: int32(code), Reason: reason, Message: message,
	})
}
