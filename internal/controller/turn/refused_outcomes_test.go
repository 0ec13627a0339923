package turn

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/journaltest"
)

// settleStore refuses the outcomes of claimed calls while refuses is set.
type settleStore struct {
	journal.Store
	refuses atomic.Bool
}

func (s *settleStore) Create(ctx context.Context, of journal.Session, e *v1alpha1.JournalEntrySpec) error {
	if s.refuses.Load() && journaltest.Content(e).Settled != nil {
		return errors.Join(journal.ErrRefused, errQuota)
	}
	return s.Store.Create(ctx, of, e)
}

// sending is a Turn with two requests that may not be repeated, whose outcomes of 64 KiB the journal refuses.
func sending(t *testing.T) (*world, *settleStore) {
	w := newWorld(t)
	store := &settleStore{Store: w.store}
	store.refuses.Store(true)
	w.store = store
	w.respond = func(name string) string { return long("result of " + name) }
	return w.begin(w.site("send", v1alpha1.SideEffectAtMostOnce), w.site("pay", v1alpha1.SideEffectAtMostOnce)), store
}

// refused reconciles the Turn until the journal has refused both outcomes.
func (m *manager) refused() {
	m.w.t.Helper()
	m.until("both refusals", func() bool {
		const activities = 3 // The model call, and both requests.
		return m.ended.Load() >= activities && stalledBy(m.w.turn()) == v1alpha1.ReasonJournalRefused
	})
	// The second one may have ended after the pass that shows the first.
	m.w.sleep(11 * time.Second)
	_, _ = m.pass()
}

// An outcome that only this process can know counts for its namespace while the journal refuses it.
func TestTheOutcomeOfARequestThatTheJournalRefusesIsHeldForAWhile(t *testing.T) {
	w, store := sending(t)
	m := w.manager(0)
	m.refused()
	held := func() int64 { return m.models.Held().Bytes }
	if n := m.textsInMemory(w.turn()); n < 128<<10 || held() < 128<<10 {
		t.Errorf("%d bytes are in memory, and the namespace holds %d", n, held())
	}
	w.sleep(9 * time.Minute)
	store.refuses.Store(false)
	m.until("the end", w.finished)
	for _, name := range []string{"send", "pay"} {
		if got := w.resultText(name); got != long("result of "+name) || w.starts(name) != 1 {
			t.Errorf("%s was sent %d times, and the model received %d bytes", name, w.starts(name), len(got))
		}
	}
	_, _ = m.pass()
	if held() != 0 {
		t.Errorf("after the end the namespace holds %d bytes", held())
	}
}

// Only the status has it then: the call has run, and its result is lost.
func TestTheOutcomeOfARequestThatTheJournalRefusesIsLostInTheEnd(t *testing.T) {
	for name, test := range map[string]struct {
		full   bool
		within time.Duration
	}{
		"after 10 minutes":                 {within: 11 * time.Minute},
		"at once if the memory is used up": {full: true, within: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			w, store := sending(t)
			m := w.manager(0)
			var others *fairshare.Share
			w.during = func() {
				if test.full && others == nil {
					others = m.models.Hold("others", fairshare.Amount{Bytes: math.MaxInt64 / 4})
				}
			}
			began := w.present()
			m.refused()
			m.until("the loss", func() bool { return m.textsInMemory(w.turn()) < 2<<10 })
			if took := w.present().Sub(began); took > test.within {
				t.Errorf("the outcomes are in memory for %v", took)
			}
			others.Release()
			if held := m.models.Held().Bytes; held != 0 {
				t.Errorf("the namespace holds %d bytes", held)
			}
			store.refuses.Store(false)
			m.until("the end", w.finished)
			for _, name := range []string{"send", "pay"} {
				call, text := w.call(name), w.resultText(name)
				if call.State != v1alpha1.ToolCallStateFailed || call.Reason != v1alpha1.ToolCallReasonOutputLost {
					t.Errorf("the call is %+v", call)
				}
				for _, words := range []string{"ran to its end", "not run again", "result of " + name} {
					if !strings.Contains(text, words) {
						t.Errorf("the model received %q, without %q", text, words)
					}
				}
				if w.starts(name) != 1 {
					t.Errorf("%s was sent %d times", name, w.starts(name))
				}
			}
		})
	}
}
