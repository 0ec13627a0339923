package crash_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

const (
	sessionName     = "demo"
	namespacePrefix = "crash-"
)

// run is one run of a scenario, in a namespace of its own.
type run struct {
	scenario
	namespace string
	// user is the connection of the user, which nothing disturbs.
	user client.Client
	seen *observer
	// handler serves the tools of the MCPServer; nil for none.
	handler http.Handler
	// started is sent to when a tool starts.
	started chan struct{}
	// connected reports whether the user has set up the connection that a tool needs.
	connected atomic.Bool
	// acted is closed when the user has interfered.
	acted chan struct{}
	// cuts is how many processes were cut off, or lead as well.
	cuts int
	// refused reports whether the cluster has no room for a tool, which then does not run.
	refused bool
	// patience is how long the run may make no progress.
	patience beats
	// moment is how long an act step may stay open without open calls.
	moment beats
	// ripeAt is since when the user could interfere; 0 if not yet.
	ripeAt beats
}

// newRun makes the namespace of a run.
func newRun(ctx context.Context, s scenario) (*run, error) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: namespacePrefix}}
	if err := user.Create(ctx, namespace); err != nil {
		return nil, err
	}
	r := &run{
		scenario:  s,
		namespace: namespace.Name,
		user:      user,
		seen:      seen,
		started:   make(chan struct{}, 256),
		acted:     make(chan struct{}),
		patience:  patience,
		moment:    moment,
	}
	if r.serve != nil {
		r.handler = r.serve()
	}
	if r.turns == nil {
		r.turns = []string{"demo-1"}
	}
	tools.play(r)
	return r, nil
}

// prepare makes a run whose leaders are known.
func prepare(ctx context.Context, s scenario, leaders ...*process) (*run, error) {
	r, err := newRun(ctx, s)
	if err != nil {
		return nil, err
	}
	for _, p := range leaders {
		p.wire.lead(r.namespace, streamFault{})
	}
	return r, r.setUp(ctx)
}

// setUp makes all but the Turns, and waits until the Session can be used.
func (r *run) setUp(ctx context.Context) error {
	s := r.scenario
	var tools []*v1alpha1.Tool
	if s.tools != nil {
		tools = s.tools()
	}
	for _, tool := range tools {
		if tool.Spec.HTTP != nil {
			tool.Spec.HTTP.URL = web.URL + "/" + r.namespace + "/" + tool.Name
		}
	}
	objects := builder.Stage(r.namespace, *s.simulation.DeepCopy(), tools...)
	if s.bundles != nil {
		for _, bundle := range s.bundles() {
			bundle.Namespace = r.namespace
			objects = append(objects, bundle)
		}
	}
	if server := r.mcpServer(); server != nil {
		objects = append(objects, server)
	}
	for _, object := range append(objects, r.newSession()) {
		if err := user.Create(ctx, object); err != nil {
			return err
		}
	}
	return await(ctx, func() error { return r.isPhase(v1alpha1.SessionPhaseStarted) })
}

func (r *run) newSession() *v1alpha1.Session {
	session := builder.Session(sessionName).In(r.namespace).Obj()
	if r.session != nil {
		r.session(&session.Spec)
	}
	if r.serve != nil {
		session.Spec.MCPServers = []v1alpha1.LocalReference{{Name: serverName}}
	}
	return session
}

func (r *run) isPhase(want v1alpha1.SessionPhase) error {
	if phase := r.seen.session(r.namespace).Status.Phase; phase != want {
		return fmt.Errorf("the Session is %s, not %s", phase, want)
	}
	return nil
}

// toolStarted notes that a tool has started.
func (r *run) toolStarted() {
	select {
	case r.started <- struct{}{}:
	default:
	}
}

func (r *run) toolResult(name, callID, text string) *v1alpha1.ToolResult {
	return builder.ToolResult(name, callID).In(r.namespace).Result(text).Obj()
}

// create creates the Turns.
func (r *run) create(ctx context.Context) error {
	for _, name := range r.turns {
		if err := r.user.Create(ctx, r.newTurn(name)); err != nil {
			return err
		}
	}
	return nil
}

// play creates the Turns, does what the user does, and waits for the end. The interference of the scenario comes at its
// natural moment, or when one is due.
func (r *run) play(ctx context.Context, due <-chan struct{}) error {
	if err := r.create(ctx); err != nil {
		return err
	}
	driving, stop := context.WithCancel(ctx)
	defer stop()
	alone := due != nil || r.expires > 0
	if r.drive != nil && !alone {
		if err := r.drive(driving, r); err != nil {
			return fmt.Errorf("acting as the user: %w", err)
		}
	}
	if r.drive != nil && alone {
		// The Turn may be over before the rest of it.
		go func() { _ = r.drive(driving, r) }()
	}
	if r.act != nil {
		if err := r.await(ctx, func() error { return r.isRipe(due) }); err != nil {
			return fmt.Errorf("before the user interferes: %w", err)
		}
		if err := r.interfere(ctx); err != nil {
			return err
		}
	}
	return r.await(ctx, r.isOver)
}

// isRipe reports whether it is time for the user to interfere.
func (r *run) isRipe(due <-chan struct{}) error {
	select {
	case <-due:
		return nil
	default:
	}
	if ended(r.seen.turn(r.namespace, "demo-1")) {
		return nil // A fault may have ended it before a tool has started.
	}
	if err := r.ripe(r); err != nil || due == nil {
		return err
	}
	// The moment at which the user was to interfere should have come by now; a while later it will not come any more.
	if r.ripeAt == 0 {
		r.ripeAt = pulse.now()
	}
	if pulse.now()-r.ripeAt < 20 {
		return errors.New("the moment to interfere has not come")
	}
	return nil
}

// interfere does what the scenario's user does in between.
func (r *run) interfere(ctx context.Context) error {
	defer close(r.acted)
	if err := r.act(ctx, r); err != nil {
		return fmt.Errorf("interfering: %w", err)
	}
	return nil
}

// newTurn is a Turn of the run.
func (r *run) newTurn(name string) *v1alpha1.Turn {
	turn := builder.Turn(name).In(r.namespace).Session(sessionName).Input("Hello from " + name).Obj()
	if r.spec != nil {
		r.spec(&turn.Spec)
	}
	return turn
}

// left are the Turns that are not deleted.
func (r *run) left() []string {
	return slices.DeleteFunc(
		slices.Concat(r.turns, r.steers),
		func(name string) bool { return slices.Contains(r.gone, name) },
	)
}

// isOver reports whether every Turn has ended and the Session is free.
func (r *run) isOver() error {
	if err := r.seen.stuck(r.namespace, r.moment); err != nil {
		return hopeless{err}
	}
	for _, name := range r.gone {
		if turn := r.seen.turn(r.namespace, name); turn.UID != "" && (!r.mayEnd || !ended(turn)) {
			return fmt.Errorf("Turn %s is still there, in phase %s", name, turn.Status.Phase)
		}
	}
	for _, name := range r.left() {
		if turn := r.seen.turn(r.namespace, name); !ended(turn) {
			return fmt.Errorf("Turn %s is in phase %s, step %d: %s", name, turn.Status.Phase, step(turn), callsOf(turn))
		}
	}
	for _, result := range r.seen.toolResults(r.namespace) {
		if r.seen.turn(r.namespace, result.Spec.TurnRef.Name).UID == "" {
			continue // It waits for a Turn that may be created again.
		}
		if len(result.Status.Conditions) == 0 || result.Status.Conditions[0].Status == metav1.ConditionUnknown {
			return fmt.Errorf("ToolResult %s has no Accepted condition", result.Name)
		}
	}
	if err := r.tasksAreOver(); err != nil {
		return err
	}
	begun := func(name string) bool {
		sum := r.seen.turn(r.namespace, name).Status.Summary
		return sum != nil && sum.StartedAt != nil
	}
	if !slices.ContainsFunc(r.left(), begun) && r.isPhase(v1alpha1.SessionPhaseStarted) == nil {
		return nil // None of its Turns has ever begun.
	}
	return r.isPhase(v1alpha1.SessionPhaseIdle)
}

// callsOf is where the calls of a Turn stand, for people to read.
func callsOf(turn *v1alpha1.Turn) string {
	var calls []string
	for _, c := range turn.Status.ToolCalls {
		calls = append(calls, fmt.Sprintf("%s %s %s %s", c.ID, c.Executor, c.State, c.Reason))
	}
	return strings.Join(calls, ", ")
}

// outcome returns the result of the run in lines: it must be the same with every disturbance.
func (r *run) outcome(ctx context.Context) ([]string, error) {
	var lines []string
	note := func(format string, arguments ...any) { lines = append(lines, fmt.Sprintf(format, arguments...)) }
	for _, name := range r.left() {
		turn := r.seen.turn(r.namespace, name)
		s := turn.Status
		if s.Summary == nil {
			s.Summary = &v1alpha1.TurnSummary{}
		}
		note(
			"Turn %s: %s after iteration %d, step %d, calls %s, usage %+v, output %q",
			name,
			s.Phase,
			s.Iteration,
			step(turn),
			s.Summary.Calls,
			s.Summary.Usage,
			s.Output,
		)
		for _, c := range s.Conditions {
			note("  %s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
		}
		for _, call := range s.ToolCalls {
			note("  call %s %s attempt %d: %s %s %q", call.ID, call.Name, call.Attempt, call.State, call.Reason, call.Preview)
		}
		if s.Error != nil {
			note("  error %s: %s", s.Error.Code, s.Error.Message)
		}
	}
	totals := r.seen.session(r.namespace).Status.Totals
	note("Session: %d Turns, %d calls, usage %+v", totals.Turns, totals.ToolCalls, totals.Usage)
	results := r.seen.toolResults(r.namespace)
	slices.SortFunc(results, func(a, b *v1alpha1.ToolResult) int { return strings.Compare(a.Name, b.Name) })
	for _, result := range results {
		if len(result.Status.Conditions) == 0 {
			continue
		}
		note("ToolResult %s: %s %s", result.Name, result.Status.Conditions[0].Status, result.Status.Conditions[0].Reason)
	}
	journal, err := r.journal(ctx)
	if err != nil {
		return nil, err
	}
	transcript, err := r.transcript(journal)
	return append(lines, transcript...), err
}

// transcript is the conversation, without ids and times. A part counts where a final entry names it: one that a writer
// left behind does not.
func (r *run) transcript(entries []journal.Entry) ([]string, error) {
	named := map[int64]bool{}
	for _, entry := range entries {
		for _, ordinal := range entry.Parts {
			named[ordinal] = true
		}
	}
	var lines []string
	for _, entry := range entries {
		if !entry.Final && !named[entry.Ordinal] {
			continue
		}
		messages, err := event.MessagesOf(entry.Events)
		if err != nil {
			return nil, fmt.Errorf("reading the messages of entry %d: %w", entry.Ordinal, err)
		}
		for _, m := range messages {
			calls, err := json.Marshal(m.ToolCalls)
			if err != nil {
				return nil, err
			}
			lines = append(
				lines,
				fmt.Sprintf("%s %q calls %s answers %s error %q", m.Role, m.PlainText(), calls, m.ToolCallID, m.Error),
			)
		}
	}
	return lines, nil
}

// journal reads the journal of the newest Session in order.
func (r *run) journal(ctx context.Context) ([]journal.Entry, error) {
	var list v1alpha1.JournalEntryList
	if err := r.user.List(ctx, &list, client.InNamespace(r.namespace)); err != nil {
		return nil, err
	}
	session := r.seen.session(r.namespace).UID
	var entries []journal.Entry
	for i := range list.Items {
		if owners := list.Items[i].OwnerReferences; len(owners) > 0 && owners[0].UID == session {
			entries = append(entries, writtenOf(&list.Items[i]).Spec)
		}
	}
	slices.SortFunc(entries, func(a, b journal.Entry) int { return int(a.Ordinal - b.Ordinal) })
	return entries, nil
}

// verify holds the invariants. Of a run that has come to its end the journal must be complete.
func (r *run) verify(ctx context.Context, whole bool) error {
	if err := await(ctx, func() error { return r.seen.caughtUp(ctx, r.user, r.namespace) }); err != nil {
		return fmt.Errorf("observing: %w", err)
	}
	errs := []error{r.evidence(whole).violations()}
	if whole {
		errs = append(errs, await(ctx, func() error { return r.tasksAreFree(ctx) }))
	}
	if whole && r.stops {
		errs = append(errs, await(ctx, func() error { return r.noJobs(ctx) }))
	}
	return errors.Join(errs...)
}

// evidence returns the evidence of the run so far.
func (r *run) evidence(whole bool) *evidence {
	e := &evidence{history: r.seen.snapshot(r.namespace), repeats: r.cuts, whole: whole}
	e.requests = func(key string) int { return web.started(r.namespace, key) }
	e.modelCalls = prompts.of(e.uids())
	return e
}

// unknown reports whether no process can know the outcome of a request that must not be repeated: the process that had
// claimed it died, or another one took over. A Job would have gone on by itself.
func (r *run) unknown() bool {
	// Its status shows the calls of the newest step alone.
	for _, at := range r.seen.snapshot(r.namespace).turns {
		if !slices.Contains(r.turns, at.object.Name) {
			continue
		}
		for _, call := range at.object.Status.ToolCalls {
			requests := call.Executor == v1alpha1.ToolExecutorHTTP || call.Executor == v1alpha1.ToolExecutorMCP
			if requests && call.SideEffect == v1alpha1.SideEffectAtMostOnce &&
				call.State == v1alpha1.ToolCallStateUnknown && call.Reason == v1alpha1.ToolCallReasonManagerLost {
				return true
			}
		}
	}
	return false
}

// noJobs reports Jobs that are left and could still run.
func (r *run) noJobs(ctx context.Context) error {
	var jobs batchv1.JobList
	if err := r.user.List(ctx, &jobs, client.InNamespace(r.namespace)); err != nil {
		return err
	}
	for _, job := range jobs.Items {
		if job.Status.CompletionTime == nil && job.Status.Failed == 0 {
			return fmt.Errorf("Job %s is left although the Turn has ended", job.Name)
		}
	}
	return nil
}

// difference returns an error with the difference of two outcomes; nil when they are equal.
func difference(want, got []string) error {
	if slices.Equal(want, got) {
		return nil
	}
	var lines []string
	for i := range max(len(want), len(got)) {
		var w, g string
		if i < len(want) {
			w = want[i]
		}
		if i < len(got) {
			g = got[i]
		}
		if w != g {
			lines = append(lines, "want "+short(w), "got  "+short(g))
		}
	}
	return errors.New("another outcome than undisturbed:\n" + strings.Join(lines, "\n"))
}

// short is the beginning of a line.
func short(line string) string {
	return line[:min(len(line), 1000)]
}
