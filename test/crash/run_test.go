package crash_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/runtime/event"
)

const sessionName = "demo"

// run is one run of a scenario, in a namespace of its own.
type run struct {
	scenario
	namespace string
	// user is the connection of the user, which nothing disturbs.
	user client.Client
	seen *observer
	// starts says how often the container of a call was started.
	starts func(namespace, turn, call string) int
	// started is sent to when a tool starts.
	started chan struct{}
	// rivals says that more than one process has a hand in the run.
	rivals bool
	// patience is how long each part of the run may take.
	patience time.Duration
}

// prepare makes all but the Turns, and waits until the Session can be used.
func prepare(ctx context.Context, s scenario, user client.Client, seen *observer) (*run, error) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "crash-"}}
	if err := user.Create(ctx, namespace); err != nil {
		return nil, err
	}
	r := &run{scenario: s, namespace: namespace.Name, user: user, seen: seen, started: make(chan struct{}, 64), patience: patience}
	tools.play(r)
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: r.namespace, Name: name} }
	harness := &v1alpha1.Harness{ObjectMeta: meta("base")}
	model := &v1alpha1.Model{ObjectMeta: meta("simulated"), Spec: v1alpha1.ModelSpec{Provider: v1alpha1.ProviderSimulated, Simulation: s.simulation.DeepCopy()}}
	model.Annotations = map[string]string{v1alpha1.AnnotationDefaultModel: "true"}
	session := &v1alpha1.Session{ObjectMeta: meta(sessionName), Spec: v1alpha1.SessionSpec{HarnessRef: v1alpha1.LocalReference{Name: "base"}}}
	objects := []client.Object{model}
	if s.tools != nil {
		for _, tool := range s.tools() {
			tool.Namespace = r.namespace
			if tool.Spec.HTTP != nil {
				tool.Spec.HTTP.URL = web.URL + "/" + r.namespace
			}
			harness.Spec.Tools = append(harness.Spec.Tools, v1alpha1.LocalReference{Name: tool.Name})
			objects = append(objects, tool)
		}
	}
	for _, object := range append(objects, harness, session) {
		if err := user.Create(ctx, object); err != nil {
			return nil, err
		}
	}
	return r, await(ctx, func() error { return r.isPhase(v1alpha1.SessionStarted) })
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
	return &v1alpha1.ToolResult{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name},
		Spec:       v1alpha1.ToolResultSpec{TurnRef: v1alpha1.TurnReference{Name: "demo-1"}, CallID: callID, Result: &text},
	}
}

// play creates the Turns, does what the user does, and waits for the end.
func (r *run) play(ctx context.Context) error {
	for _, name := range r.turns {
		if err := r.user.Create(ctx, r.newTurn(name)); err != nil {
			return err
		}
	}
	if r.drive != nil {
		if err := r.drive(ctx, r); err != nil {
			return fmt.Errorf("what the user does: %w", err)
		}
	}
	return awaitFor(ctx, r.patience, r.isOver)
}

// newTurn is a Turn of the run.
func (r *run) newTurn(name string) *v1alpha1.Turn {
	turn := &v1alpha1.Turn{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name},
		Spec:       v1alpha1.TurnSpec{SessionRef: v1alpha1.LocalReference{Name: sessionName}, Input: "Hello from " + name},
	}
	if r.spec != nil {
		r.spec(&turn.Spec)
	}
	return turn
}

// left are the Turns that are not deleted.
func (r *run) left() []string {
	return slices.DeleteFunc(slices.Concat(r.turns, r.steers), func(name string) bool { return slices.Contains(r.gone, name) })
}

// isOver says that every Turn has ended and the Session is free.
func (r *run) isOver() error {
	for _, name := range r.gone {
		if turn := r.seen.turn(r.namespace, name); turn.UID != "" {
			return fmt.Errorf("Turn %s is still there", name)
		}
	}
	for _, name := range r.left() {
		if turn := r.seen.turn(r.namespace, name); !ended(turn) {
			return fmt.Errorf("Turn %s is in phase %s, step %d: %+v", name, turn.Status.Phase, step(turn), turn.Status.ToolCalls)
		}
	}
	for _, result := range r.seen.toolResults(r.namespace) {
		if len(result.Status.Conditions) == 0 || result.Status.Conditions[0].Status == metav1.ConditionUnknown {
			return fmt.Errorf("nothing was said of ToolResult %s", result.Name)
		}
	}
	return r.isPhase(v1alpha1.SessionIdle)
}

// outcome says in lines what became of the run: all that must be the same whatever was disturbed.
func (r *run) outcome(ctx context.Context) ([]string, error) {
	var lines []string
	note := func(format string, arguments ...any) { lines = append(lines, fmt.Sprintf(format, arguments...)) }
	for _, name := range r.left() {
		turn := r.seen.turn(r.namespace, name)
		s := turn.Status
		note("Turn %s: %s after iteration %d, step %d, calls %s, usage %+v, output %q", name, s.Phase, s.Iteration, step(turn), s.Summary.Calls, s.Summary.Usage, s.Output)
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
		note("ToolResult %s: %s %s", result.Name, result.Status.Conditions[0].Status, result.Status.Conditions[0].Reason)
	}
	log, err := r.log(ctx)
	if err != nil {
		return nil, err
	}
	transcript, err := r.transcript(log)
	return append(lines, transcript...), err
}

// transcript is the conversation, without ids and times.
func (r *run) transcript(log []v1alpha1.JournalEntrySpec) ([]string, error) {
	var lines []string
	for _, entry := range log {
		messages, err := event.MessagesOf(entry.Events)
		if err != nil {
			return nil, fmt.Errorf("reading the messages of entry %d: %w", entry.Ordinal, err)
		}
		for _, m := range messages {
			calls, err := json.Marshal(m.ToolCalls)
			if err != nil {
				return nil, err
			}
			lines = append(lines, fmt.Sprintf("%s %q calls %s answers %s error %q", m.Role, m.PlainText(), calls, m.ToolCallID, m.Error))
		}
	}
	return lines, nil
}

// log reads the log in order.
func (r *run) log(ctx context.Context) ([]v1alpha1.JournalEntrySpec, error) {
	var list v1alpha1.JournalEntryList
	if err := r.user.List(ctx, &list, client.InNamespace(r.namespace)); err != nil {
		return nil, err
	}
	log := make([]v1alpha1.JournalEntrySpec, len(list.Items))
	for i := range list.Items {
		log[i] = list.Items[i].Spec
	}
	slices.SortFunc(log, func(a, b v1alpha1.JournalEntrySpec) int { return int(a.Ordinal - b.Ordinal) })
	return log, nil
}

// verify holds the laws at the end of a run.
func (r *run) verify(ctx context.Context) error {
	log, err := r.log(ctx)
	if err != nil {
		return err
	}
	errs := []error{r.seen.violations(r.namespace), checkLog(log, len(r.turns))}
	for _, id := range r.once {
		turn, call, _ := strings.Cut(id, "/")
		if n := r.starts(r.namespace, turn, call); n > 1 {
			errs = append(errs, fmt.Errorf("the AtMostOnce call %s started %d times", id, n))
		}
	}
	for _, id := range r.never {
		turn, call, _ := strings.Cut(id, "/")
		if n := r.starts(r.namespace, turn, call); n > 0 {
			errs = append(errs, fmt.Errorf("the call %s started %d times, and nobody has approved it", id, n))
		}
	}
	if r.asks {
		errs = append(errs, web.startedTwice(r.namespace))
	}
	if r.stops {
		errs = append(errs, await(ctx, func() error { return r.noJobs(ctx) }))
	}
	return errors.Join(errs...)
}

// unknown says that nobody can know what became of a request: the process that had claimed it died, or another one took over. A Job would have
// gone on by itself.
func (r *run) unknown() bool {
	if !r.asks {
		return false
	}
	for _, call := range r.seen.turn(r.namespace, r.turns[0]).Status.ToolCalls {
		if call.State == v1alpha1.CallUnknown && call.Reason == capstantest.ReasonManagerLost {
			return true
		}
	}
	return false
}

// noJobs says that no Job is left.
func (r *run) noJobs(ctx context.Context) error {
	var jobs batchv1.JobList
	if err := r.user.List(ctx, &jobs, client.InNamespace(r.namespace)); err != nil {
		return err
	}
	if len(jobs.Items) > 0 {
		return fmt.Errorf("%d Jobs are left although the Turn was cancelled", len(jobs.Items))
	}
	return nil
}

// checkLog holds the laws of the log: no gap, one final entry for each step of a Turn, one Turn after the other, each up to its end.
func checkLog(log []v1alpha1.JournalEntrySpec, turns int) error {
	var errs []error
	fail := func(format string, arguments ...any) { errs = append(errs, fmt.Errorf(format, arguments...)) }
	var open string
	var last int32
	over := map[string]bool{}
	for i, entry := range log {
		if entry.Ordinal != int64(i)+1 {
			fail("the entry at place %d has ordinal %d", i+1, entry.Ordinal)
		}
		if entry.Turn == nil {
			continue
		}
		name := entry.Turn.Name
		switch {
		case over[name]:
			fail("entry %d belongs to Turn %s, which had ended before", entry.Ordinal, name)
		case open == "":
			open, last = name, 0
		case open != name:
			fail("entry %d of Turn %s comes before the end of Turn %s", entry.Ordinal, name, open)
		}
		if entry.Step != last+1 {
			fail("entry %d is of step %d of Turn %s, whose step %d is open", entry.Ordinal, entry.Step, name, last+1)
		}
		if !entry.Final {
			continue
		}
		last = entry.Step
		if entry.Transition == nil || entry.Transition.Plan == nil {
			fail("the final entry %d has no plan", entry.Ordinal)
			continue
		}
		if entry.Transition.Plan.Phase == v1alpha1.PlanComplete {
			over[name], open = true, ""
		}
	}
	if len(over) != turns || open != "" {
		fail("%d of %d Turns have ended in the log; open is %q", len(over), turns, open)
	}
	return errors.Join(errs...)
}

// difference says how two outcomes differ; nil when they do not.
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
			lines = append(lines, "want "+w, "got  "+g)
		}
	}
	return errors.New("another outcome than undisturbed:\n" + strings.Join(lines, "\n"))
}

// toolPlayers lets each run say what its tools give.
type toolPlayers struct {
	mu   sync.Mutex
	runs map[string]*run
}

func (p *toolPlayers) play(r *run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.runs == nil {
		p.runs = map[string]*run{}
	}
	p.runs[r.namespace] = r
}

// run is the JobRunner of the kits.
func (p *toolPlayers) run(call capstantest.Call) (stdout, stderr string, exit int) {
	p.mu.Lock()
	r := p.runs[call.Namespace]
	p.mu.Unlock()
	if r == nil || r.tool == nil {
		return "result of " + call.ID, "", 0
	}
	return r.tool(r, call), "", 0
}
