package crash_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// family is a kind of fault, for the histogram and the sample.
type family string

const (
	familyRequest family = "request"
	familyRead    family = "read"
	familyChaos   family = "chaos"
	familyDeath   family = "death"
	familyTwice   family = "two deaths"
	familyPaused  family = "paused leader"
	familyRelay   family = "two paused leaders, clocks 2 s apart"
	familyRivals  family = "two leaders"
	familyAhead   family = "two leaders, clocks 2 s apart"
	familyElected family = "two elected leaders, clocks 2 s apart"
	familyThree   family = "three elected leaders, clocks 2 s apart"
	familyWatch   family = "watch"
	familyAct     family = "user"
)

// cell is a scenario and its faults.
type cell struct {
	scenario int
	family   family
	// strikes hit the leaders, one after the other. The last leader may have none.
	strikes []strike
	streams streamFault
	// label names faults that are not strikes.
	label string
	// refused is the request that the cluster forbids, or has no room for; empty for other faults. Requests of calls
	// that run side by side have no order.
	refused string
	// ahead reports whether the second leader's clock is 2 s ahead.
	ahead bool
	// runs numbers cells that are otherwise the same.
	run int
}

func (c cell) String() string {
	var faults []string
	for _, s := range c.strikes {
		faults = append(faults, s.String())
	}
	if c.label != "" {
		faults = append(faults, c.label)
	}
	return fmt.Sprintf("%s | %s | %s", c.family, scenarios[c.scenario].name, strings.Join(faults, ", "))
}

// kind is what the histogram counts the cell as.
func (c cell) kind() string {
	var fates []string
	for _, s := range c.strikes {
		fates = append(fates, string(s.fate))
	}
	if c.label != "" {
		fates = append(fates, c.label)
	}
	return fmt.Sprintf("%s: %s", c.family, strings.Join(fates, ", "))
}

// undisturbed is what a scenario is like when nothing goes wrong.
type undisturbed struct {
	outcome []string
	writes  []string
	reads   []string
	// events counts those that came of each resource.
	events map[string]int
	// acted is how many writes came before the user interfered.
	acted int
	err   error
}

// stage are the processes that the cells are played with.
type stage struct {
	// first plays the cluster as well.
	first, second *process
	// ahead has a clock that is 2 s ahead.
	ahead *process
	// lossy loses events.
	lossy *process
}

// leaders are the processes of a cell, in the order in which they lead.
func (s *stage) leaders(c cell) []*process {
	switch {
	case c.family == familyThree:
		return []*process{s.first, s.second, s.ahead}
	case c.ahead || c.family == familyElected:
		return []*process{s.first, s.ahead}
	case c.streams.gap != "":
		return []*process{s.lossy}
	case c.family == familyTwice:
		return []*process{s.first, s.second, s.ahead}
	default:
		return []*process{s.first, s.second}
	}
}

// play plays one cell. It reports whether the faults came, and changes the cell where they did not.
func (s *stage) play(ctx context.Context, played *cell, want undisturbed) (struck bool, err error) {
	c := *played
	if c.family == familyElected || c.family == familyThree {
		return s.playElected(ctx, played, want)
	}
	leaders := s.leaders(c)
	rivals := c.family == familyRivals || c.family == familyAhead
	led := leaders[:1]
	if rivals {
		led = leaders
	}
	r, err := prepare(ctx, scenarios[c.scenario], led...)
	if err != nil {
		return false, fmt.Errorf("preparing: %w", err)
	}
	defer func() {
		for _, p := range leaders {
			p.wire.disarm(r.namespace)
		}
		seen.forget(r.namespace)
	}()
	for i, p := range led {
		p.wire.arm(r.namespace, c.strikeAt(i))
		p.wire.refuseOnly(r.namespace, c.refused)
		p.wire.disturb(r.namespace, c.streams)
	}
	if rivals {
		r.cuts = rivalRepeats
	}
	if c.streams.gap != "" {
		r.patience, r.moment = 3*patience, 2*patience
	}
	r.refused = c.refused == "POST jobs"
	var due chan struct{}
	if c.family == familyAct {
		// The conversation depends on when the user interferes.
		due, r.varies = make(chan struct{}), true
	}
	playing, stop := context.WithCancel(ctx)
	defer stop()
	end := make(chan error, 1)
	go func() { end <- r.play(playing, due) }()
	err = s.direct(ctx, c, r, leaders, due, end)
	if struck = r.isStruck(c, leaders); !struck {
		verbose("not all faults came", played)
		r.replaceMissed(played, leaders, want)
	}
	return struck, r.judge(ctx, want, c, leaders, err)
}

// isStruck reports whether all faults of a cell came.
func (r *run) isStruck(c cell, leaders []*process) bool {
	for i, p := range leaders {
		switch {
		case c.family == familyRivals || c.family == familyAhead:
			if len(p.wire.counted(r.namespace, writes)) == 0 {
				return false
			}
		case i < len(c.strikes) && c.strikes[i].fate != pass, i == 0:
			if !p.wire.struck(r.namespace) {
				return false
			}
		}
	}
	return true
}

// maxTries is how often a cell is played at most until its faults come.
const maxTries = 4

// playUntilBefallen plays a cell, and again where its faults did not come: the number of requests depends on the time.
// A request that did not come is replaced by the last one of its kind that did. It reports in which try all faults
// came; 0 for none.
func (s *stage) playUntilBefallen(ctx context.Context, c cell, want undisturbed) (try int, err error) {
	for try := 1; try <= maxTries; try++ {
		began, first := time.Now(), pulse.now()
		struck, err := s.play(ctx, &c, want)
		verbose("played", c, "in", time.Since(began).Round(time.Millisecond), pulse.now()-first, "beats")
		if struck || err != nil {
			return try, err
		}
	}
	return 0, nil
}

// replaceMissed moves strikes whose request did not come to requests that came. Where a leader found nothing left to
// do, the one before it is struck earlier.
func (r *run) replaceMissed(c *cell, leaders []*process, want undisturbed) {
	c.strikes, c.streams.nth = slices.Clone(c.strikes), min(c.streams.nth, 1)
	for i := range c.strikes {
		at := &c.strikes[i]
		if slices.Contains([]fate{pass, chaos}, at.fate) || (i < len(leaders) && leaders[i].wire.struck(r.namespace)) {
			continue
		}
		var came []string
		if i < len(leaders) {
			came = leaders[i].wire.counted(r.namespace, at.kind)
		}
		if i == 0 {
			planned := cmp.Or(c.refused, [][]string{want.writes, want.reads}[at.kind][at.nth-1])
			for len(came) > 0 && came[len(came)-1] != planned {
				came = came[:len(came)-1]
			}
		} else if len(came) == 0 {
			before := &c.strikes[i-1]
			before.nth = max(before.nth-1, 1)
		}
		at.nth = min(at.nth, max(len(came), 1))
	}
}

// rivalRepeats is how many model calls two leaders may make in vain: each of them calls the model of each step.
const rivalRepeats = 64

func (c cell) strikeAt(i int) strike {
	if i < len(c.strikes) {
		return c.strikes[i]
	}
	return strike{}
}

// direct lets the leaders follow each other as the strikes come, and waits for the end.
func (s *stage) direct(
	ctx context.Context,
	c cell,
	r *run,
	leaders []*process,
	due chan struct{},
	end chan error,
) error {
	for i, at := range c.strikes {
		if at.fate == pass || at.fate == chaos {
			break
		}
		p := leaders[i]
		select {
		case err := <-end:
			return err
		case <-p.wire.cutOf(r.namespace):
		}
		switch {
		case due != nil:
			close(due)
			select {
			case <-r.acted:
			case err := <-end:
				return err
			}
			s.settle(ctx, r, p)
			p.wire.release(r.namespace)
		case at.fate.endsLead() && i+1 < len(leaders):
			r.cuts++
			if c.family == familyRelay {
				// The second takes over when the Turn has expired for it, and not yet for the first.
				_ = await(ctx, func() error { return r.hasExpired(time.Now().Add(clocksApart)) })
			}
			next := leaders[i+1]
			next.wire.arm(r.namespace, c.strikeAt(i+1))
			next.wire.lead(r.namespace, streamFault{})
		case c.family == familyRelay:
			// Both are paused. The first goes on with what it believes to be true, then the second: each of them leads beside
			// the other one, as processes of an election do that go on.
			r.cuts += 2
			leaders[0].wire.disarm(r.namespace)
			s.settle(ctx, r, leaders[0])
			p.wire.disarm(r.namespace)
		}
	}
	return <-end
}

// settle waits until a process has done all that it can do now. A slow model call is not the end of it.
func (s *stage) settle(ctx context.Context, r *run, p *process) {
	_ = awaitFor(ctx, 20, func() error {
		if !p.wire.quiet(r.namespace, modelLatency+50*time.Millisecond) {
			return errors.New("requests are in progress")
		}
		return nil
	})
}

// judge holds the invariants and the outcome, and once more when the leaders that were paused have gone on.
func (r *run) judge(ctx context.Context, want undisturbed, c cell, leaders []*process, err error) error {
	if err != nil {
		return errors.Join(err, r.verify(ctx, false))
	}
	if err := r.finish(ctx, want); err != nil || (c.family != familyPaused && c.family != familyRelay) {
		return err
	}
	for _, p := range leaders {
		p.wire.disarm(r.namespace)
	}
	if err := r.atRest(ctx, leaders); err != nil {
		return err
	}
	if err := r.finish(ctx, want); err != nil {
		return fmt.Errorf("when the paused leader went on: %w", err)
	}
	return nil
}

// atRest waits until processes have done all that they can do.
func (r *run) atRest(ctx context.Context, processes []*process) error {
	for _, p := range processes {
		err := await(ctx, func() error {
			if !p.wire.quiet(r.namespace, 200*time.Millisecond) {
				return errors.New("the leader that was paused does not come to rest")
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// finish checks a run that has come to its end.
func (r *run) finish(ctx context.Context, want undisturbed) error {
	if err := r.verify(ctx, true); err != nil {
		return err
	}
	if r.varies || r.refused || want.err != nil || (r.cuts > 0 && r.unknown()) {
		return nil
	}
	got, err := r.outcome(ctx)
	if err != nil {
		return err
	}
	return difference(want.outcome, got)
}

// measurings is how often each scenario is run undisturbed: requests that all these runs have in common can be
// disturbed.
const measurings = 2

// measure runs the scenarios whose names match undisturbed, several at a time. Of the others there are no cells.
func (s *stage) measure(ctx context.Context, names *regexp.Regexp) []undisturbed {
	found := make([]undisturbed, measurings*len(scenarios))
	all(indices(len(found)), func(i int) {
		if what := scenarios[i/measurings]; names.MatchString(what.name) {
			found[i] = s.measureOne(ctx, what)
		}
	})
	each := make([]undisturbed, len(scenarios))
	for i := range each {
		each[i] = found[measurings*i]
		for _, other := range found[measurings*i+1 : measurings*(i+1)] {
			each[i].bound(scenarios[i], other)
		}
	}
	return each
}

// bound leaves what came in another run as well.
func (u *undisturbed) bound(what scenario, other undisturbed) {
	u.err = errors.Join(u.err, other.err)
	if !what.varies {
		u.err = errors.Join(u.err, difference(u.outcome, other.outcome))
	}
	if len(other.writes) < len(u.writes) {
		u.writes = other.writes
	}
	if len(other.reads) < len(u.reads) {
		u.reads = other.reads
	}
	u.acted = min(u.acted, other.acted)
	for resource, n := range other.events {
		u.events[resource] = min(u.events[resource], n)
	}
}

func (s *stage) measureOne(ctx context.Context, what scenario) undisturbed {
	var u undisturbed
	r, err := prepare(ctx, what, s.first)
	if err != nil {
		u.err = fmt.Errorf("preparing: %w", err)
		return u
	}
	defer seen.forget(r.namespace)
	s.first.wire.arm(r.namespace, strike{})
	s.first.wire.disturb(r.namespace, streamFault{})
	acted := make(chan int, 1)
	go func() {
		select {
		case <-r.acted:
			acted <- len(s.first.wire.counted(r.namespace, writes))
		case <-ctx.Done():
		}
	}()
	u.err = r.play(ctx, nil)
	if u.err == nil {
		u.err = r.verify(ctx, true)
	} else {
		u.err = errors.Join(u.err, r.verify(ctx, false))
	}
	select {
	case u.acted = <-acted:
	default:
	}
	u.writes, u.reads = s.first.wire.counted(r.namespace, writes), s.first.wire.counted(r.namespace, reads)
	u.events = s.first.wire.events(r.namespace)
	var err2 error
	if u.outcome, err2 = r.outcome(ctx); err2 != nil {
		u.err = errors.Join(u.err, err2)
	}
	return u
}

func indices(n int) []int {
	found := make([]int, n)
	for i := range found {
		found[i] = i
	}
	return found
}
