package crash_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
)

// pendingRequest is a request of the manager on its way to the API server. A break changes it, as if the manager were
// broken.
type pendingRequest struct {
	target
	method string
	// object is the created object, and patch the patch of a status; nil for other requests.
	object client.Object
	patch  map[string]any
	// pretended reports whether the API server only pretends to carry it out.
	pretended bool
	// after is called once the request has succeeded.
	after func(ctx context.Context) error
}

// brokenManager is a break of the manager's behaviour and the invariant that catches it.
type brokenManager struct {
	invariant, message string
	scenario           string
	// do changes a request. It reports whether it did.
	do func(ctx context.Context, r *run, d *pendingRequest) (bool, error)
	// forgets is the write at which the manager forgets what it has not written; empty for none.
	forgets string
	moment  beats
}

var brokenManagers = []brokenManager{
	{
		invariant: notExecutedNeverStarted, message: "was not executed", scenario: "one Pure Job",
		do: closingCalls(func(c *v1alpha1.ToolCall) { c.State = v1alpha1.ToolCallStateNotExecuted }),
	},
	{
		invariant: succeededStarted, message: "ran in another pod", scenario: "one AtMostOnce Job",
		do: closingCalls(func(c *v1alpha1.ToolCall) { c.PodUID = "another" }),
	},
	{invariant: startedOnce, message: "started 2 times", scenario: "one AtMostOnce Job", do: startTwice},
	{
		invariant: startedOnce, message: "background task", scenario: "a background task that outlives its Turn",
		do: startTwice,
	},
	{
		invariant: taskShown, message: "no status had shown it", scenario: "a background task that outlives its Turn",
		do: jobs(func(job *batchv1.Job) { job.Labels[v1alpha1.LabelTask] = strings.Repeat("0", 16) }),
	},
	{
		invariant: taskShown, message: "shows background task", scenario: "a background task that outlives its Turn",
		do: hideEarly,
	},
	{
		invariant: taskDelivered, message: "is delivered by 2 Turns",
		scenario: "a background task that outlives its Turn", do: deliverTwice,
	},
	{
		invariant: approvedBeforeStart,
		message:   "the journal had no approval",
		scenario:  "AtMostOnce tools that need approval, one of which gets it",
		do: entries(func(s *journal.Entry, _ *pendingRequest) bool {
			approves := s.Settled != nil && s.Settled.Decision == v1alpha1.DecisionApprove
			if approves {
				s.Settled.Decision = v1alpha1.DecisionReject
			}
			return approves
		}),
	},
	{
		invariant: entryBeforeStatus, message: "before the journal had its end", scenario: "no tools",
		do: entries(func(s *journal.Entry, d *pendingRequest) bool {
			d.pretended = s.Final
			return s.Final
		}),
	},
	{invariant: entryBeforeRelease, message: "the Session released Turn demo-1", scenario: "no tools", do: releaseEarly},
	{
		invariant: planBeforeJob,
		message:   "no status had planned it",
		scenario:  "one Pure Job",
		do: jobs(func(job *batchv1.Job) {
			job.Labels[v1alpha1.LabelAttempt] = "2"
		}),
	},
	{
		invariant: podBeforeGate,
		message:   "let go before the status named it",
		scenario:  "one AtMostOnce Job",
		do: jobs(func(job *batchv1.Job) {
			job.Spec.Template.Spec.SchedulingGates = nil
		}),
	},
	{
		invariant: settledStepCloses,
		message:   "shows all calls of its act step as settled",
		scenario:  "a request and a Job that is slow",
		do:        settleEarly,
		moment:    3,
	},
	{
		invariant: acceptedInJournal,
		message:   "was accepted before the journal had it",
		scenario:  "client tools, one of which answers early",
		do: entries(func(s *journal.Entry, _ *pendingRequest) bool {
			if s.Settled != nil {
				s.Settled.Source = "another"
			}
			return s.Settled != nil
		}),
	},
	{
		invariant: outcomeRecorded,
		message:   "the journal had call 1-0",
		scenario:  "Jobs that have settled, an approval and a client that are slow",
		do: entries(func(s *journal.Entry, _ *pendingRequest) bool {
			for i := range s.Outcomes {
				s.Outcomes[i].Result = new("another result")
			}
			return len(s.Outcomes) > 0
		}),
	},
	{invariant: paidOnce, message: "model calls were repeated", scenario: "no tools", forgets: "POST journalentries"},
	{
		invariant: journalWhole, message: "whose step 1 is open", scenario: "no tools",
		do: entries(func(s *journal.Entry, _ *pendingRequest) bool {
			if s.Final {
				s.Step++
			}
			return s.Final
		}),
	},
	{invariant: oneConversation, message: "which the journal has ended", scenario: "no tools", do: admitAgain},
	{
		invariant: oneConversation,
		message:   "which was cancelled before it began",
		scenario:  "the Turn behind another one is cancelled",
		do:        admitCancelled,
	},
	{
		invariant: oneConversation,
		message:   "which the journal has ended",
		scenario:  "a message for the running Turn is cancelled before the model has responded",
		do:        admitCancelled,
	},
	{
		invariant: neverBegun,
		message:   "and the journal delivers its message",
		scenario:  "a message ends the wait for a client",
		do:        denyDelivery,
	},
	{invariant: statusOrder, message: "went back from step 3 to 1", scenario: "one Pure Job", do: goBack},
	{invariant: oneRuns, message: "run at the same time", scenario: "two Turns in a row", do: runBoth},
}

// entries breaks what the manager writes into the journal.
func entries(
	change func(*journal.Entry, *pendingRequest) bool,
) func(context.Context, *run, *pendingRequest) (bool, error) {
	return func(_ context.Context, _ *run, d *pendingRequest) (bool, error) {
		entry, ok := d.object.(*v1alpha1.JournalEntry)
		if !ok {
			return false, nil
		}
		content, err := format.Decode(&entry.Spec)
		if err != nil || !change(content, d) {
			return false, err
		}
		broken, err := format.Encode(content)
		if err != nil {
			return false, err
		}
		entry.Spec = *broken
		return true, nil
	}
}

// closingCalls breaks what entries state of the calls of an act step.
func closingCalls(change func(*v1alpha1.ToolCall)) func(context.Context, *run, *pendingRequest) (bool, error) {
	return entries(func(s *journal.Entry, _ *pendingRequest) bool { return changeSettled(s, change) })
}

// changeSettled changes what a final entry states of calls that have their final state.
func changeSettled(s *journal.Entry, change func(*v1alpha1.ToolCall)) bool {
	changed := false
	if s.Final && s.Transition != nil {
		for i := range s.Transition.ToolCalls {
			if call := &s.Transition.ToolCalls[i]; call.State.Settled() {
				change(call)
				changed = true
			}
		}
	}
	return changed
}

// jobs breaks the Jobs that the manager creates.
func jobs(change func(*batchv1.Job)) func(context.Context, *run, *pendingRequest) (bool, error) {
	return func(_ context.Context, _ *run, d *pendingRequest) (bool, error) {
		job, ok := d.object.(*batchv1.Job)
		if ok {
			change(job)
		}
		return ok, nil
	}
}

// startTwice creates each Job twice, once without the gate.
func startTwice(ctx context.Context, _ *run, d *pendingRequest) (bool, error) {
	job, ok := d.object.(*batchv1.Job)
	if !ok {
		return false, nil
	}
	second := job.DeepCopy()
	second.Name += "-again"
	second.Spec.Template.Spec.SchedulingGates = nil
	return true, client.IgnoreAlreadyExists(user.Create(ctx, second))
}

// releaseEarly lets the Session go on while the first step of its Turn is open.
func releaseEarly(ctx context.Context, r *run, d *pendingRequest) (bool, error) {
	if d.path != "journalentries" {
		return false, nil
	}
	return true, changeStatus(ctx, r.newSession(), `{"status":{"activeTurn":null}}`)
}

// settleEarly shows all calls as settled that have just been planned.
func settleEarly(_ context.Context, _ *run, d *pendingRequest) (bool, error) {
	calls, _ := statusField(d, "turns/status", "toolCalls").([]any)
	for _, call := range calls {
		if call, ok := call.(map[string]any); ok {
			call["state"] = v1alpha1.ToolCallStateSucceeded
		}
	}
	return len(calls) > 0, nil
}

// admitAgain makes a Turn active again that the Session releases.
func admitAgain(_ context.Context, r *run, d *pendingRequest) (bool, error) {
	before := r.seen.session(r.namespace).Status.ActiveTurn
	status, ok := d.patch["status"].(map[string]any)
	if _, released := status["activeTurn"]; !ok || !released || status["activeTurn"] != nil || before == nil ||
		d.path != "sessions/status" {
		return false, nil
	}
	active, err := json.Marshal(before)
	d.after = func(ctx context.Context) error {
		return changeStatus(ctx, r.newSession(), fmt.Sprintf(`{"status":{"activeTurn":%s}}`, active))
	}
	return true, err
}

// admitCancelled lets an admission come through that began before the Turn was cancelled, once the Turn has ended.
func admitCancelled(_ context.Context, r *run, d *pendingRequest) (bool, error) {
	if statusField(d, "turns/status", "phase") != string(v1alpha1.TurnPhaseCancelled) {
		return false, nil
	}
	turn := r.seen.turn(r.namespace, "demo-2")
	d.after = func(ctx context.Context) error {
		return changeStatus(ctx, r.newSession(), fmt.Sprintf(
			`{"status":{"activeTurn":{"name":%q,"uid":%q,"openedAtOrdinal":1}}}`, turn.Name, turn.UID))
	}
	return true, nil
}

// denyDelivery ends a message that was delivered as if it was not.
func denyDelivery(_ context.Context, _ *run, d *pendingRequest) (bool, error) {
	if statusField(d, "turns/status", "steeredInto") == nil {
		return false, nil
	}
	delete(d.patch["status"].(map[string]any), "steeredInto")
	return true, nil
}

// goBack takes a Turn back to its first step.
func goBack(_ context.Context, r *run, d *pendingRequest) (bool, error) {
	plan, _ := statusField(d, "turns/status", "plan").(map[string]any)
	if plan["step"] != float64(3) {
		return false, nil
	}
	d.after = func(ctx context.Context) error {
		return changeStatus(ctx, r.newTurn("demo-1"), `{"status":{"plan":{"step":1}}}`)
	}
	return true, nil
}

// runBoth begins the second Turn when the first one has been admitted.
func runBoth(ctx context.Context, r *run, _ *pendingRequest) (bool, error) {
	session := r.seen.session(r.namespace)
	if session.Status.ActiveTurn == nil || r.seen.turn(r.namespace, "demo-2").UID == "" {
		return false, nil
	}
	begun := fmt.Sprintf(
		`{"status":{"sessionUID":%q,"plan":{"step":1,"phase":"Reason","openedAtOrdinal":1}}}`, session.UID)
	return true, errors.Join(
		changeStatus(ctx, r.newTurn("demo-1"), begun), changeStatus(ctx, r.newTurn("demo-2"), begun))
}

func changeStatus(ctx context.Context, object client.Object, patch string) error {
	return user.Status().Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(patch)))
}

// statusField is a field of the status that a request changes; nil for none.
func statusField(d *pendingRequest, path, name string) any {
	status, _ := d.patch["status"].(map[string]any)
	if d.path != path {
		return nil
	}
	return status[name]
}

// codecs read what the manager creates.
var codecs = serializer.NewCodecFactory(controller.NewScheme())

// breaking makes the requests of a run pass a break. It counts those that it changed.
func (b *brokenManager) breaking(
	r *run,
	changed *atomic.Int32,
) func(http.RoundTripper, *http.Request, target) (*http.Response, error) {
	return func(next http.RoundTripper, request *http.Request, t target) (*http.Response, error) {
		d := &pendingRequest{target: t, method: request.Method}
		if err := d.read(request); err != nil {
			return nil, err
		}
		did, err := b.do(request.Context(), r, d)
		if err != nil {
			return nil, err
		}
		if did {
			changed.Add(1)
			if request, err = d.write(request); err != nil {
				return nil, err
			}
		}
		response, err := next.RoundTrip(request)
		if err == nil && d.after != nil && response.StatusCode < http.StatusBadRequest {
			err = d.after(request.Context())
		}
		return response, err
	}
}

// read decodes the body of a request.
func (d *pendingRequest) read(request *http.Request) error {
	if request.Body == nil {
		return nil
	}
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return err
	}
	request.Body = io.NopCloser(bytes.NewReader(body))
	switch {
	case request.Method == http.MethodPatch:
		return json.Unmarshal(body, &d.patch)
	case request.Method == http.MethodPost && slices.Contains([]string{"jobs", "journalentries", "turns"}, d.path):
		object, _, err := codecs.UniversalDeserializer().Decode(body, nil, nil)
		if err != nil {
			return err
		}
		d.object, _ = object.(client.Object)
	}
	return nil
}

// write returns the changed request.
func (d *pendingRequest) write(request *http.Request) (*http.Request, error) {
	request = request.Clone(request.Context())
	if d.pretended {
		query := request.URL.Query()
		query.Set("dryRun", "All")
		request.URL.RawQuery = query.Encode()
	}
	var body []byte
	var err error
	switch {
	case d.patch != nil:
		body, err = json.Marshal(d.patch)
	case d.object != nil:
		body, err = json.Marshal(d.object)
		request.Header.Set("Content-Type", "application/json")
	default:
		return request, nil
	}
	request.Body, request.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	request.GetBody = nil
	return request, err
}

// playBroken plays a scenario with a broken manager, until the invariant catches it.
func (s *stage) playBroken(ctx context.Context, b brokenManager, base []undisturbed) error {
	nth := slices.IndexFunc(scenarios, func(one scenario) bool { return one.name == b.scenario })
	r, err := prepare(ctx, scenarios[nth], s.first)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer func() {
		stop()
		s.first.wire.kill(r.namespace)
		s.second.wire.kill(r.namespace)
		seen.forget(r.namespace)
	}()
	if b.moment > 0 {
		r.moment = b.moment
	}
	var changed atomic.Int32
	if b.forgets != "" {
		s.first.wire.arm(r.namespace, strike{writes, slices.Index(base[nth].writes, b.forgets) + 1, die})
		go func() {
			select {
			case <-s.first.wire.cutOf(r.namespace):
				changed.Add(1)
				s.second.wire.lead(r.namespace, streamFault{})
			case <-ctx.Done():
			}
		}()
	} else {
		bent := b.breaking(r, &changed) //nolint:bodyclose // bend passes each response on to the client
		s.first.wire.bend(r.namespace, bent)
	}
	end := make(chan error, 1)
	go func() { end <- r.play(ctx, nil) }()
	var ended error
	caught := func() error {
		select {
		case ended = <-end:
		default:
		}
		found := errors.Join(ended, r.evidence(false).violations())
		if found == nil || !strings.Contains(found.Error(), b.invariant+": ") || !strings.Contains(found.Error(), b.message) {
			return fmt.Errorf(
				"%s did not catch that %q; %d requests were changed, and it found: %w",
				b.invariant,
				b.message,
				changed.Load(),
				found,
			)
		}
		return nil
	}
	return awaitFor(ctx, patience/2, caught)
}

// catchBreaks checks that each invariant catches a manager that breaks it.
func (s *stage) catchBreaks(ctx context.Context, base []undisturbed) error {
	errs := make([]error, len(brokenManagers))
	all(indices(len(brokenManagers)), func(i int) { errs[i] = s.playBroken(ctx, brokenManagers[i], base) })
	return errors.Join(errs...)
}
