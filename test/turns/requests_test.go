package turns_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// request is one request of the controllers that writes.
type request struct {
	method, path string
	// progress marks a write of a Turn's status that only shows how far its tool calls have come. The budget counts
	// those apart. phase marks one of them that shows another phase.
	progress, phase bool
	// late marks the write of a Turn's plan a second or more after its admission: the budget has it only then.
	late bool
	at   time.Time
}

// requestLog notes what the controllers write, and which objects they read.
type requestLog struct {
	mu    sync.Mutex
	wrote []request
	// read are the paths of GETs, those of lists and watches too.
	read  []string
	calls map[string]callCounts
	// admitted is when each Turn was, by the path of its status.
	admitted map[string]time.Time
}

// callCounts has the counts of tool calls in the newest write of a Turn's status.
type callCounts struct {
	pods, attempts, withdrawn int
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (l *requestLog) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodGet {
			l.note(r.Method, r.URL.Path, bodyOf(r))
		} else {
			l.noteRead(r.URL.Path)
		}
		return next.RoundTrip(r)
	})
}

func (l *requestLog) note(method, path string, body []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	progress, phase := l.isProgress(method, path, body)
	now := time.Now()
	l.wrote = append(l.wrote, request{method, path, progress, phase, l.isLatePlan(path, body, now), now})
}

// isLatePlan reports whether a write is that of a Turn's first plan, at least a second after the Turn's admission.
func (l *requestLog) isLatePlan(path string, body []byte, now time.Time) bool {
	var patch struct {
		Status struct {
			ActiveTurn *v1alpha1.ActiveTurn `json:"activeTurn"`
			Phase      v1alpha1.TurnPhase   `json:"phase"`
			Plan       *v1alpha1.TurnPlan   `json:"plan"`
		} `json:"status"`
	}
	if json.Unmarshal(body, &patch) != nil {
		return false
	}
	if active := patch.Status.ActiveTurn; active != nil && active.AdmittedAt != nil {
		namespace, _, _ := strings.Cut(path, "/sessions/")
		if l.admitted == nil {
			l.admitted = map[string]time.Time{}
		}
		l.admitted[namespace+"/turns/"+active.Name+"/status"] = active.AdmittedAt.Time
	}
	admitted, known := l.admitted[path]
	plan := patch.Status.Plan
	return known && plan != nil && plan.Step == 1 && patch.Status.Phase == v1alpha1.TurnPhaseReason &&
		now.Sub(admitted) >= time.Second
}

func (l *requestLog) noteRead(path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.read = append(l.read, path)
}

// configReads counts how often each Harness, Agent, Session, Model and Tool of a namespace was read past the cache, by
// `resource/name`.
func (l *requestLog) configReads(namespace string) map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts := map[string]int{}
	for _, path := range l.read {
		_, of, _ := strings.Cut(path, "/namespaces/"+namespace+"/")
		resource, name, _ := strings.Cut(of, "/")
		if name != "" && slices.Contains([]string{"harnesses", "agents", "sessions", "models", "tools"}, resource) {
			counts[of]++
		}
	}
	return counts
}

// reads counts how often objects of a namespace were read past the cache, by resource.
func (l *requestLog) reads(namespace string) map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts := map[string]int{}
	for _, path := range l.read {
		_, of, found := strings.Cut(path, "/namespaces/"+namespace+"/")
		if resource, name, _ := strings.Cut(of, "/"); found && name != "" {
			counts[resource]++
		}
	}
	return counts
}

// bodyOf is a copy of the request's body.
func bodyOf(r *http.Request) []byte {
	if r.GetBody == nil {
		return nil
	}
	reader, err := r.GetBody()
	if err != nil {
		return nil
	}
	defer func() { _ = reader.Close() }()
	body, err := io.ReadAll(reader)
	if err != nil {
		return nil
	}
	return body
}

// isProgress reports whether a write of a Turn's status decides nothing: the plan is as it was, no pod and no sub-agent
// was recorded, no attempt begun, no call withdrawn. phase reports whether it shows another phase.
func (l *requestLog) isProgress(method, path string, body []byte) (progress, phase bool) {
	if method != http.MethodPatch || !strings.Contains(path, "/turns/") || !strings.HasSuffix(path, "/status") {
		return false, false
	}
	var patch struct {
		Status struct {
			Phase     string                `json:"phase"`
			Plan      json.RawMessage       `json:"plan"`
			ToolCalls []v1alpha1.ToolCall   `json:"toolCalls"`
			Summary   *v1alpha1.TurnSummary `json:"summary"`
		} `json:"status"`
	}
	if json.Unmarshal(body, &patch) != nil {
		return false, false
	}
	var now callCounts
	for _, call := range patch.Status.ToolCalls {
		now.attempts += int(call.Attempt)
		if call.PodUID != "" || call.SubAgent != nil {
			now.pods++
		}
		if call.Executor == v1alpha1.ToolExecutorJob && call.State == v1alpha1.ToolCallStateNotExecuted {
			now.withdrawn++
		}
	}
	before := l.calls[path]
	if l.calls == nil {
		l.calls = map[string]callCounts{}
	}
	if patch.Status.ToolCalls != nil {
		l.calls[path] = now
	}
	shows := patch.Status.ToolCalls != nil || patch.Status.Phase != ""
	progress = patch.Status.Plan == nil && shows && now.pods <= before.pods && now.attempts <= before.attempts &&
		now.withdrawn <= before.withdrawn
	return progress, progress && patch.Status.Phase != ""
}

// in returns the writes to objects of a namespace, as `METHOD resource[/subresource]`, without those that only show
// whether a layer, Model or Tool can be used: they are no part of a Turn. Nor are Events, which have a bound of their
// own. Progress writes are among them, late plans are not.
func (l *requestLog) in(namespace string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for _, r := range l.wrote {
		if what, ok := r.of(namespace); ok && !r.late {
			found = append(found, what)
		}
	}
	return found
}

// latePlans counts the plans that were written a second or more after the admission of their Turn.
func (l *requestLog) latePlans(namespace string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	count := 0
	for _, r := range l.wrote {
		if _, ok := r.of(namespace); ok && r.late {
			count++
		}
	}
	return count
}

// budgeted returns the writes that the budget of a Turn counts, and those that only show progress.
func (l *requestLog) budgeted(namespace string) (counted []string, progress []request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.wrote {
		what, ok := r.of(namespace)
		switch {
		case !ok, r.late:
		case r.progress:
			progress = append(progress, r)
		default:
			counted = append(counted, what)
		}
	}
	return counted, progress
}

// hasty returns the progress writes, but for those of a new phase, that came within a second after another write of the
// same Turn's status.
func (l *requestLog) hasty(namespace string) (found []request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := map[string]time.Time{}
	for _, r := range l.wrote {
		if what, ok := r.of(namespace); !ok || what != turnWrite {
			continue
		}
		if r.progress && !r.phase && r.at.Sub(last[r.path]) < time.Second {
			found = append(found, r)
		}
		last[r.path] = r.at
	}
	return found
}

// phases returns those writes that show another phase.
func phases(progress []request) []request {
	return slices.DeleteFunc(slices.Clone(progress), func(r request) bool { return !r.phase })
}

// of returns the object that was written, if it is in the namespace and part of a Turn.
func (r request) of(namespace string) (string, bool) {
	_, rest, ok := strings.Cut(r.path, "/namespaces/"+namespace+"/")
	if !ok {
		return "", false
	}
	parts := strings.Split(rest, "/")
	what := parts[0]
	if len(parts) > 2 {
		what += "/" + parts[2]
	}
	if slices.Contains([]string{"harnesses/status", "agents/status", "models/status", "tools/status", "events"}, what) {
		return "", false
	}
	return r.method + " " + what, true
}

// concerning gives all writes to objects of a namespace, Events and conditions of layers too, and to those of none.
func (l *requestLog) concerning(namespace string) []request {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []request
	for _, r := range l.wrote {
		if !strings.Contains(r.path, "/namespaces/") || strings.Contains(r.path+"/", "/namespaces/"+namespace+"/") {
			found = append(found, r)
		}
	}
	return found
}
