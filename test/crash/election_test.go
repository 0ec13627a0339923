package crash_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/controller/leader"
)

// The times of the suite's elections. They relate to each other as those of the manager do.
const (
	leaseDuration = 3 * time.Second
	renewDeadline = 2 * time.Second
	retryPeriod   = 200 * time.Millisecond
	// lastMoment is how long a process still acts once it knows that it leads no longer. A manager ends at once then. It
	// is too short for a second call of a slow model: those that a process begins beside its successor are paid twice.
	lastMoment = modelLatency / 2
	// managerContainer is the name of the manager's container.
	managerContainer = "manager"
)

// election decides by a Lease which process leads one run, with the manager's own lock.
type election struct {
	run     *run
	strikes []strike
	// namespace is that of the managers' pods and of the Lease.
	namespace  string
	candidates []*candidate
	// began gets each candidate that begins to lead, and struck each whose strike has come.
	began, struck chan *candidate
	stop          context.CancelFunc
	group         sync.WaitGroup

	mu sync.Mutex
	// led are the candidates that have led, in order, and first is the index of the first one that is disturbed. On a busy
	// machine a leader may lose the Lease while the scenario is prepared: the strikes wait. It is -1 until they begin.
	led   []*candidate
	first int
	// wakes counts how often a process that was paused went on.
	wakes int
	// pausedAt is when the newest leader was paused; zero when it was not.
	pausedAt time.Time
	// strokes counts the strikes that have come, and usurped those that deleted a pod.
	strokes, usurped int
	errs             []error
	// log has the events of the processes.
	log electionLog
}

// elect lets the processes stand for election. The first of them leads when it returns, and the others wait.
func elect(ctx context.Context, r *run, strikes []strike, processes []*process) (*election, error) {
	e := &election{
		run: r, strikes: strikes, namespace: "managers-of-" + r.namespace,
		began: make(chan *candidate, 64), struck: make(chan *candidate, 64), log: electionLog{began: time.Now()},
		first: -1,
	}
	if err := user.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.namespace}}); err != nil {
		return nil, err
	}
	ctx, e.stop = context.WithCancel(ctx)
	for i, p := range processes {
		c := &candidate{process: p, election: e, successor: make(chan struct{})}
		c.name = fmt.Sprintf("manager-%d", i)
		if err := c.createPod(ctx); err != nil {
			return e, err
		}
		e.candidates = append(e.candidates, c)
		e.group.Go(func() { c.stand(ctx) })
		if i > 0 {
			continue
		}
		err := await(ctx, func() error {
			select {
			case <-e.began:
				return nil
			default:
				return errors.New("no process was elected")
			}
		})
		if err != nil {
			return e, err
		}
	}
	return e, nil
}

// close ends the election.
func (e *election) close() {
	e.stop()
	e.group.Wait()
	seen.forget(e.namespace)
}

// lead is called when the process has acquired the Lease.
func (c *candidate) lead(life context.Context, end context.CancelFunc) {
	e := c.election
	e.mu.Lock()
	defer e.mu.Unlock()
	if life.Err() != nil {
		e.log.note("%s has lost the Lease before it learned that it had it", c.name)
		return
	}
	e.log.note("%s leads", c.name)
	if len(e.led) > 0 {
		e.checkTakeover()
		close(e.led[len(e.led)-1].successor)
	}
	c.successor, c.life, c.end = make(chan struct{}), life, end
	e.led, e.pausedAt = append(e.led, c), time.Time{}
	if e.first >= 0 {
		e.arm(c)
	}
	c.wire.lead(e.run.namespace, streamFault{})
	e.began <- c
}

// begin disturbs the leaders from the present one on.
func (e *election) begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.began) > 0 {
		<-e.began
	}
	e.first = len(e.led) - 1
	e.arm(e.led[e.first])
}

// arm disturbs the newest leader. The caller holds the lock.
func (e *election) arm(c *candidate) {
	var at strike
	if n := len(e.led) - 1 - e.first; n < len(e.strikes) {
		at = e.strikes[n]
	}
	c.wire.arm(e.run.namespace, at)
	go c.awaitStrike(c.life, c.end, at, c.wire.cutOf(e.run.namespace))
}

// checkTakeover checks that a Lease whose holder is paused, and therefore not known to have ended, runs out first.
func (e *election) checkTakeover() {
	if waited := time.Since(e.pausedAt); !e.pausedAt.IsZero() && waited < leaseDuration-renewDeadline-retryPeriod {
		e.errs = append(
			e.errs,
			fmt.Errorf("the Lease of a leader that was paused changed hands after %s, before it had run out", waited),
		)
	}
}

// awaitStrike does to the process itself what its strike does to its requests.
func (c *candidate) awaitStrike(life context.Context, end context.CancelFunc, at strike, cut <-chan struct{}) {
	e := c.election
	select {
	case <-cut:
	case <-life.Done():
		return
	}
	e.mu.Lock()
	e.strokes++
	e.log.note("%s is struck: %s", c.name, at)
	switch at.fate {
	case die, dieAfter:
		c.gone = true
		end()
	case hold, holdAfter:
		e.pausedAt = time.Now()
	case usurp:
		c.usurped = true
		e.usurped++
	default:
	}
	e.mu.Unlock()
	if at.fate == usurp {
		// A leader that has lost the Lease at the same moment has no pod any more.
		err := user.Delete(life, c.pod, client.GracePeriodSeconds(0))
		if client.IgnoreNotFound(err) != nil && life.Err() == nil {
			e.fail(fmt.Errorf("deleting the pod of a leader: %w", err))
		}
	}
	e.struck <- c
}

func (e *election) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.errs = append(e.errs, err)
}

// allStruck reports whether all strikes have come.
func (e *election) allStruck() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.strokes >= strikesOf(e.strikes)
}

// repeats is how many model calls may have been made in vain: one for each process that took over, and one for each
// that went on beside it, or more for one that did not know before that it was usurped.
func (e *election) repeats() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.led) - 1 + e.wakes + e.usurped*rivalRepeats
}

// wake lets all processes go on that are paused. It reports whether there were any.
func (e *election) wake() bool {
	woken := false
	for _, c := range e.candidates {
		if c.wire.frozen(e.run.namespace) == nil {
			continue
		}
		e.mu.Lock()
		e.wakes++
		e.log.note("%s goes on", c.name)
		e.mu.Unlock()
		c.wire.disarm(e.run.namespace)
		woken = true
	}
	return woken
}

// direct lets the leaders follow each other as the strikes come and the Lease changes hands, and waits for the end. A
// leader that is paused goes on when the next one that is not paused leads: at once, or in the middle of a request of
// that one.
func (e *election) direct(ctx context.Context, s *stage, end <-chan error) error {
	for {
		select {
		case err := <-end:
			return err
		case c := <-e.began:
			if at := e.strikeOf(c); at.fate == pass {
				e.wake()
				e.releaseUsurped(c)
			}
		case c := <-e.struck:
			e.releaseUsurped(c)
			if at := e.strikeOf(c); at.fate == stall {
				e.wake()
				for _, other := range e.candidates {
					if other != c {
						s.settle(ctx, e.run, other.process)
					}
				}
				c.wire.release(e.run.namespace)
			}
		}
	}
}

// releaseUsurped lets the requests of usurped leaders go on, once their successor leads undisturbed, or is struck: if
// they went on before, they could leave nothing to write for a successor that is to be struck.
func (e *election) releaseUsurped(successor *candidate) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.candidates {
		if c.usurped && c != successor {
			c.wire.release(e.run.namespace)
			e.log.note("the request of %s goes on", c.name)
		}
	}
}

// strikeOf is the strike that the newest term of a process has.
func (e *election) strikeOf(c *candidate) strike {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := len(e.led) - 1; i >= e.first; i-- {
		if e.led[i] == c && i-e.first < len(e.strikes) {
			return e.strikes[i-e.first]
		}
	}
	return strike{}
}

// check returns an error unless the leaders followed each other by the Lease, which only its holders released.
func (e *election) check(ctx context.Context) error {
	err := awaitFor(ctx, patience/10, func() error {
		var lease coordinationv1.Lease
		if err := user.Get(ctx, types.NamespacedName{Namespace: e.namespace, Name: leader.LeaseName}, &lease); err != nil {
			return err
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		if transitions := ptr.Deref(lease.Spec.LeaseTransitions, 0); int(transitions) != len(e.led)-1 {
			return fmt.Errorf(
				"%d processes led, one after the other, and the Lease changed hands %d times",
				len(e.led),
				transitions,
			)
		}
		return nil
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	return errors.Join(append(e.errs, err)...)
}

// inOrder are the processes in the order in which they led, from the first that was disturbed.
func (e *election) inOrder() []*process {
	e.mu.Lock()
	defer e.mu.Unlock()
	var led []*process
	for _, c := range e.led[e.first:] {
		led = append(led, c.process)
	}
	return led
}

// playElected plays a cell whose leaders are elected. It reports whether all faults came.
func (s *stage) playElected(ctx context.Context, played *cell, want undisturbed) (struck bool, err error) {
	c := *played
	leaders := s.leaders(c)
	r, err := newRun(ctx, scenarios[c.scenario])
	if err != nil {
		return false, err
	}
	defer func() {
		for _, p := range leaders {
			p.wire.disarm(r.namespace)
		}
		seen.forget(r.namespace)
	}()
	e, err := elect(ctx, r, c.strikes, leaders)
	if e != nil {
		defer e.close()
		defer func() {
			if err != nil {
				err = errors.Join(err, e.log.report())
			}
		}()
	}
	if err != nil {
		return false, err
	}
	if err := r.setUp(ctx); err != nil {
		return false, fmt.Errorf("preparing: %w", err)
	}
	e.begin()
	end := make(chan error, 1)
	playing, stop := context.WithCancel(ctx)
	defer stop()
	go func() { end <- r.play(playing, nil) }()
	err = e.direct(ctx, s, end)
	if struck = e.allStruck(); !struck {
		verbose("not all faults came", played, e.log.report())
		r.replaceMissed(played, e.inOrder(), want)
	}
	r.cuts = e.repeats()
	if err != nil {
		return struck, errors.Join(err, r.verify(ctx, false), e.check(ctx))
	}
	if err := r.finish(ctx, want); err != nil {
		return struck, err
	}
	if e.wake() {
		r.cuts = e.repeats()
		if err := r.atRest(ctx, leaders); err != nil {
			return struck, err
		}
		if err := r.finish(ctx, want); err != nil {
			return struck, fmt.Errorf("when the paused leader went on: %w", err)
		}
	}
	return struck, e.check(ctx)
}
