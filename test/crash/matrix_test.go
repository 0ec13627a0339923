package crash_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"time"
)

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
	"all-late": {
		"turns":    300 * time.Millisecond,
		"sessions": 150 * time.Millisecond,
		"jobs":     500 * time.Millisecond,
		"pods":     250 * time.Millisecond,
	},
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
			if verb, path, _ := strings.Cut(write, " "); verb == "PATCH" || verb == "DELETE" {
				add(cell{family: familyRequest, strikes: []strike{{writes, nth, conflict}}, label: path})
			}
			// Without its first Job such a conversation has nothing to go on with.
			needed := (s.drive != nil || s.act != nil) && !slices.Contains(b.writes[:nth-1], "POST jobs")
			if write == "POST journalentries" || (write == "POST jobs" && !needed) {
				add(cell{family: familyRequest, strikes: []strike{{writes, nth, forbid}}, refused: write})
				add(cell{family: familyRequest, strikes: []strike{{writes, nth, quota}}, refused: write})
			}
			takeoverCells(s, nth, len(b.writes)-nth, add)
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
		for _, seed := range chaoticSeeds(8, min(len(b.writes), 4)) {
			add(cell{family: familyChaos, strikes: []strike{{writes, seed, chaos}}})
		}
		for run := range 4 {
			add(cell{family: familyRivals, label: "both from the start", run: run})
			add(cell{family: familyAhead, label: "both from the start", ahead: true, run: run})
		}
		watchCells(s, b, add)
	}
	sort.SliceStable(all, func(a, b int) bool { return all[a].String() < all[b].String() })
	return all
}

// takeoverCells are the cells of a scenario in which the leader dies or is paused at a write. The leader that takes
// over has the rest to write.
func takeoverCells(s scenario, nth, rest int, add func(cell)) {
	for _, how := range []fate{die, dieAfter} {
		add(cell{family: familyDeath, strikes: []strike{{writes, nth, how}, {}}})
		add(cell{family: familyElected, strikes: []strike{{writes, nth, how}, {}}})
		for second := 1; second <= min(rest, 2); second++ {
			add(cell{family: familyThree, strikes: []strike{{writes, nth, how}, {writes, second, dieAfter}, {}}})
		}
		for second := 1; second <= min(rest, 4); second++ {
			add(cell{family: familyTwice, strikes: []strike{{writes, nth, how}, {writes, second, dieAfter}, {}}})
		}
	}
	add(cell{family: familyElected, strikes: []strike{{writes, nth, usurp}, {}}})
	for second := 1; second <= min(rest, 2); second++ {
		add(cell{family: familyThree, strikes: []strike{{writes, nth, usurp}, {writes, second, usurp}, {}}})
	}
	for _, how := range []fate{hold, holdAfter} {
		for second := 1; second <= min(rest, 3); second++ {
			add(cell{family: familyElected, strikes: []strike{{writes, nth, how}, {writes, second, stall}}})
			add(cell{family: familyThree, strikes: []strike{{writes, nth, how}, {writes, second, hold}, {}}})
		}
		add(cell{family: familyPaused, strikes: []strike{{writes, nth, how}, {}}})
		for second := 1; second <= min(rest, 4) && s.expires > 0; second++ {
			add(cell{family: familyRelay, ahead: true, strikes: []strike{{writes, nth, how}, {writes, second, hold}}})
		}
	}
}

// watchCells are the cells of a scenario whose events are disturbed: a stream without events cannot be.
func watchCells(s scenario, b undisturbed, add func(cell)) {
	for label, late := range lateness {
		if s.from > 0 && late["turns"] > time.Second {
			continue // Each of its steps would take as long.
		}
		if slices.ContainsFunc(
			slices.Collect(maps.Keys(late)),
			func(resource string) bool { return b.events[resource] > 0 },
		) {
			add(cell{family: familyWatch, label: label, streams: streamFault{late: late}})
		}
	}
	add(cell{family: familyWatch, label: "doubled", streams: streamFault{twice: true}})
	if s.replaces != "" {
		add(cell{family: familyWatch, label: s.replaces + "-merged", streams: streamFault{merged: s.replaces}})
	}
	for _, resource := range []string{"turns", "sessions", "jobs", "pods", "toolresults"} {
		for nth := 1; nth <= min(b.events[resource], 3); nth++ {
			add(cell{family: familyWatch, label: resource + "-410", streams: streamFault{gap: resource, nth: nth}})
		}
	}
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
