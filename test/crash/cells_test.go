package crash_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"sort"
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
	familyWatch   family = "watch"
	familyAct     family = "user"
)

// cell is a scenario and the faults that befall it.
type cell struct {
	scenario int
	family   family
	// strikes befall the leaders, one after the other. The last leader may have none.
	strikes []strike
	streams streamFault
	// label names faults that are not strikes.
	label string
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
	// acted is how many writes came before the user interfered.
	acted int
	err   error
}

// lateness is how late events are, by the streams that are late.
var lateness = map[string]map[string]time.Duration{
	"turns-late":         {"turns": 400 * time.Millisecond},
	"sessions-late":      {"sessions": 400 * time.Millisecond},
	"jobs-late":          {"jobs": 400 * time.Millisecond},
	"pods-late":          {"pods": 400 * time.Millisecond},
	"results-late":       {"toolresults": 400 * time.Millisecond},
	"turns-very-late":    {"turns": 6 * time.Second},
	"jobs-and-pods-late": {"jobs": 200 * time.Millisecond, "pods": 900 * time.Millisecond},
	"pods-before-jobs":   {"jobs": 900 * time.Millisecond},
	"all-late":           {"turns": 300 * time.Millisecond, "sessions": 150 * time.Millisecond, "jobs": 500 * time.Millisecond, "pods": 250 * time.Millisecond},
}

// cells are all combinations of scenarios and faults.
func cells(base []undisturbed) []cell {
	var all []cell
	for i := range scenarios {
		s, b := scenarios[i], base[i]
		if len(b.writes) == 0 {
			continue
		}
		first := max(s.from, 1)
		each := func(n int, do func(nth int)) {
			for nth := first; nth <= n; nth++ {
				do(nth)
			}
		}
		add := func(c cell) { c.scenario = i; all = append(all, c) }
		each(len(b.writes), func(nth int) {
			write := b.writes[nth-1]
			for _, how := range []fate{refuse, lose, fail500, done500, fail504, done504, throttle} {
				add(cell{family: familyRequest, strikes: []strike{{writes, nth, how}}})
			}
			if strings.HasPrefix(write, "PATCH") {
				add(cell{family: familyRequest, strikes: []strike{{writes, nth, conflict}}})
			}
			// Without its first Job such a conversation has nothing to go on with.
			needed := (s.drive != nil || s.act != nil) && !slices.Contains(b.writes[:nth-1], "POST jobs")
			if write == "POST journalentries" || (write == "POST jobs" && !needed) {
				add(cell{family: familyRequest, strikes: []strike{{writes, nth, forbid}}})
				add(cell{family: familyRequest, strikes: []strike{{writes, nth, quota}}})
			}
			for _, how := range []fate{die, dieAfter} {
				add(cell{family: familyDeath, strikes: []strike{{writes, nth, how}, {}}})
				for second := 1; second <= 4; second++ {
					add(cell{family: familyTwice, strikes: []strike{{writes, nth, how}, {writes, second, dieAfter}, {}}})
				}
			}
			for _, how := range []fate{hold, holdAfter} {
				add(cell{family: familyPaused, strikes: []strike{{writes, nth, how}, {}}})
				for second := 1; second <= 4 && s.expires > 0; second++ {
					add(cell{family: familyRelay, ahead: true, strikes: []strike{{writes, nth, how}, {writes, second, hold}}})
				}
			}
		})
		each(len(b.reads), func(nth int) {
			for _, how := range []fate{refuse, fail504, throttle} {
				add(cell{family: familyRead, strikes: []strike{{reads, nth, how}}})
			}
		})
		moments := b.acted
		if s.anytime {
			moments = len(b.writes)
		}
		each(moments, func(nth int) {
			add(cell{family: familyAct, strikes: []strike{{writes, nth, stall}}})
			add(cell{family: familyAct, strikes: []strike{{writes, nth, stallAfter}}})
		})
		for seed := range 8 {
			add(cell{family: familyChaos, strikes: []strike{{writes, seed + 1, chaos}}})
		}
		for run := range 4 {
			add(cell{family: familyRivals, label: "both from the start", run: run})
			add(cell{family: familyAhead, label: "both from the start", ahead: true, run: run})
		}
		for label, late := range lateness {
			if s.from > 0 && late["turns"] > time.Second {
				continue // Each of its steps would take as long.
			}
			if concerned(b, slices.Collect(maps.Keys(late))...) {
				add(cell{family: familyWatch, label: label, streams: streamFault{late: late}})
			}
		}
		add(cell{family: familyWatch, label: "doubled", streams: streamFault{twice: true}})
		for _, resource := range []string{"turns", "sessions", "jobs", "pods", "toolresults"} {
			for nth := 1; nth <= 3 && concerned(b, resource); nth++ {
				add(cell{family: familyWatch, label: resource + "-410", streams: streamFault{gap: resource, nth: nth}})
			}
		}
	}
	sort.SliceStable(all, func(a, b int) bool { return all[a].String() < all[b].String() })
	return all
}

// concerned reports whether objects of one of the resources are in the scenario, going by what the manager wrote: a
// stream without events cannot be disturbed.
func concerned(b undisturbed, resources ...string) bool {
	return slices.ContainsFunc(resources, func(resource string) bool {
		if resource == "pods" {
			resource = "jobs"
		}
		return slices.ContainsFunc(b.writes, func(write string) bool { return strings.Contains(write, resource) })
	})
}

// maxGaps is how often the watch of a resource expires in a sample: a client waits before it lists again, twice as long
// each time, up to a minute.
const maxGaps = 3

// sample chooses cells: as evenly as it can over the kinds of faults, and over the scenarios within a kind.
func sample(all []cell, size int, seed uint64) []cell {
	random := rand.New(rand.NewPCG(seed, 0))
	byKind := map[string][]cell{}
	for _, c := range all {
		byKind[c.kind()] = append(byKind[c.kind()], c)
	}
	kinds := slices.Sorted(maps.Keys(byKind))
	for _, k := range kinds {
		random.Shuffle(len(byKind[k]), func(a, b int) { byKind[k][a], byKind[k][b] = byKind[k][b], byKind[k][a] })
	}
	used, taken := map[int]int{}, map[string]int{}
	var chosen []cell
	for len(chosen) < min(size, len(all)) {
		for _, k := range kinds {
			if len(chosen) == size || len(byKind[k]) == 0 || (byKind[k][0].streams.gap != "" && taken[k] == maxGaps) {
				continue
			}
			taken[k]++
			// Of a few that come next the one whose scenario has had the fewest.
			best := 0
			for i := range min(8, len(byKind[k])) {
				if used[byKind[k][i].scenario] < used[byKind[k][best].scenario] {
					best = i
				}
			}
			c := byKind[k][best]
			byKind[k] = slices.Delete(byKind[k], best, best+1)
			used[c.scenario]++
			chosen = append(chosen, c)
		}
	}
	return chosen
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
	case c.ahead:
		return []*process{s.first, s.ahead}
	case c.streams.gap != "":
		return []*process{s.lossy}
	case c.family == familyTwice:
		return []*process{s.first, s.second, s.ahead}
	default:
		return []*process{s.first, s.second}
	}
}

// play plays one cell. It reports whether the faults came.
func (s *stage) play(ctx context.Context, c cell, want undisturbed) (befallen bool, err error) {
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
		p.wire.disturb(r.namespace, c.streams)
	}
	if rivals {
		r.cuts = rivalRepeats
	}
	if c.streams.gap != "" {
		r.patience, r.moment = 3*patience, 2*patience
	}
	if at := c.strikeAt(0); (at.fate == forbid || at.fate == quota) && at.kind == writes && want.writes[at.nth-1] == "POST jobs" {
		r.refused = true
	}
	var due chan struct{}
	if c.family == familyAct {
		// What becomes of the conversation depends on when the user interferes.
		due, r.varies = make(chan struct{}), true
	}
	played, stop := context.WithCancel(ctx)
	defer stop()
	end := make(chan error, 1)
	go func() { end <- r.play(played, due) }()
	cut, err := s.direct(ctx, c, r, leaders, due, end)
	for i, p := range leaders {
		if i < len(c.strikes) && c.strikeAt(i).fate == pass {
			continue
		}
		befallen = befallen || p.wire.befallen(r.namespace) > 0
	}
	if rivals {
		befallen = len(leaders[0].wire.counted(r.namespace, writes)) > 0 && len(leaders[1].wire.counted(r.namespace, writes)) > 0
	}
	_ = cut
	return befallen, r.judge(ctx, want, c, leaders, err)
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
func (s *stage) direct(ctx context.Context, c cell, r *run, leaders []*process, due chan struct{}, end chan error) (cut int, err error) {
	for i, at := range c.strikes {
		if at.fate == pass || at.fate == chaos {
			break
		}
		p := leaders[i]
		select {
		case err := <-end:
			return cut, err
		case <-p.wire.cutOf(r.namespace):
			cut++
		}
		switch {
		case due != nil:
			close(due)
			select {
			case <-r.acted:
			case err := <-end:
				return cut, err
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
			// Both are paused. The first goes on with what it believes to be true, then the second.
			leaders[0].wire.disarm(r.namespace)
			s.settle(ctx, r, leaders[0])
			p.wire.disarm(r.namespace)
		}
	}
	return cut, <-end
}

// settle waits until a process has done all that it can do now.
func (s *stage) settle(ctx context.Context, r *run, p *process) {
	_ = awaitFor(ctx, 2*time.Second, func() error {
		if !p.wire.quiet(r.namespace, 150*time.Millisecond) {
			return errors.New("requests are under way")
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
	for _, p := range leaders {
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
	if err := r.finish(ctx, want); err != nil {
		return fmt.Errorf("when the paused leader went on: %w", err)
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

// measure runs the scenarios whose names match undisturbed, several at a time. Of the others there are no cells.
func (s *stage) measure(ctx context.Context, names *regexp.Regexp) []undisturbed {
	found := make([]undisturbed, len(scenarios))
	all(indices(len(scenarios)), func(i int) {
		if names.MatchString(scenarios[i].name) {
			found[i] = s.measureOne(ctx, scenarios[i])
		}
	})
	return found
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
