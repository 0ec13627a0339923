package turn

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/step"
)

// brokenStore is an entry store that fails to store entries, and accepts them in a dry run.
type brokenStore struct {
	*gatedStore
	cause error
}

func (b *brokenStore) Create(ctx context.Context, s journal.Session, e *v1alpha1.JournalEntrySpec) error {
	if b.cause != nil {
		return b.cause
	}
	return b.gatedStore.Create(ctx, s, e)
}

// breakStore makes the journal of the stage fail to store entries.
func (st *stage) breakStore(cause error) *brokenStore {
	broken := &brokenStore{gatedStore: st.store, cause: cause}
	st.r.Steps.Log = journal.New(broken, journal.Options{Clock: st.r.Clock})
	return broken
}

// run passes time, and runs the passes that fall due.
func (st *stage) run(d time.Duration) {
	st.t.Helper()
	for end := st.r.Clock().Add(d); st.r.Clock().Before(end); {
		pause := st.pass()
		if pause == 0 {
			pause = time.Second
		}
		st.later(min(pause, end.Sub(st.r.Clock())))
	}
}

// Only a refusal of the API server shows that a later append would fail too. After other errors the response is paid
// for once, the Turn holds no place meanwhile, and a dry run is not enough to pay for another one.
func TestAModelIsNotPaidAgainWhileTheJournalStoresNothing(t *testing.T) {
	for name, cause := range map[string]error{
		"etcd is full":         errors.New("etcdserver: mvcc: database space exceeded"),
		"the server is broken": apierrors.NewInternalError(errors.New("etcdserver: mvcc: database space exceeded")),
		"too many requests":    apierrors.NewTooManyRequests("etcdserver: mvcc: database space exceeded", 1),
	} {
		t.Run(name, func(t *testing.T) {
			st := newStage(t)
			broken := st.breakStore(cause)
			st.run(time.Minute)
			st.expectStalled(v1alpha1.ReasonJournalRefused, "database space exceeded", "is kept until")
			if n := st.r.Activities.Len() + st.r.Turns.Active(); n != 0 {
				t.Errorf("the Turn holds %d places", n)
			}
			st.run(step.UndeliveredRetention)
			st.expectStalled(
				v1alpha1.ReasonJournalRefused,
				"was dropped after 10m0s",
				"The model is not called until the journal accepts an entry",
			)
			st.expectKept(none)
			st.run(5 * time.Hour)
			st.expectStalled(v1alpha1.ReasonJournalRefused, "The model is not called until the journal accepts an entry")
			if st.asked != 1 {
				t.Errorf("the model was called %d times", st.asked)
			}
			broken.cause = nil
			st.run(10 * time.Minute)
			st.expectSucceeded()
			if st.asked != 2 {
				t.Errorf("the model was called %d times", st.asked)
			}
		})
	}
}

// What the memory of a process holds is lost with it. The next one stores an entry before it calls the model again.
func TestARestartDoesNotPayForAResponseThatTheJournalDoesNotStore(t *testing.T) {
	full := errors.New("etcdserver: mvcc: database space exceeded")
	for name, test := range map[string]struct {
		// after is when the process is replaced, again and again.
		after time.Duration
		// readOnly reports whether the API server refuses to write status as well.
		readOnly bool
	}{
		"before the Turn reports it": {after: time.Second},
		"while the response is kept": {after: time.Minute},
		"after it was dropped":       {after: step.UndeliveredRetention + time.Minute},
		"that can write nothing":     {after: time.Second, readOnly: true},
	} {
		t.Run(name, func(t *testing.T) {
			st := newStage(t)
			broken := st.breakStore(full)
			writable := st.client
			for range 4 {
				st.run(test.after)
				if test.readOnly {
					st.client = interceptor.NewClient(writable.(client.WithWatch), interceptor.Funcs{SubResourcePatch: func(
						context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption,
					) error {
						return full
					}})
				}
				st.restart()
				st.r.Steps.Log = journal.New(broken, journal.Options{Clock: st.r.Clock})
			}
			st.run(test.after)
			if st.asked != 1 {
				t.Errorf("the model was called %d times", st.asked)
			}
			broken.cause, st.client = nil, writable
			st.restart()
			st.run(10 * time.Minute)
			st.expectSucceeded()
			if st.asked != 2 {
				t.Errorf("the model was called %d times", st.asked)
			}
			if entries := st.entries(); entries != 2 {
				t.Errorf("the journal has %d entries, want the one that came first and the end", entries)
			}
		})
	}
}

// A journal that works costs no entry for each Turn that a new process takes up.
func TestANewProcessStoresOneEntryFirst(t *testing.T) {
	for name, test := range map[string]struct {
		restart bool
		stored  bool
		entries int
	}{
		"the same process":                  {entries: 1},
		"a new process":                     {restart: true, entries: 2},
		"a new process that has stored one": {restart: true, stored: true, entries: 1},
	} {
		t.Run(name, func(t *testing.T) {
			st := newStage(t)
			if test.restart {
				st.begin(1)
			}
			if test.stored {
				other := journal.Session{Namespace: "ns", Name: "other", UID: "other-uid"}
				_, err := st.r.Steps.Log.Append(t.Context(), other, journal.Record{
					Turn: v1alpha1.JournalTurn{Name: "other-1", UID: "other-turn"}, Step: 1, OpenedAt: 1,
					Transition: v1alpha1.TurnProgress{Plan: &v1alpha1.TurnPlan{Step: 1, Phase: v1alpha1.PlanPhaseComplete}},
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			st.run(time.Second)
			st.expectSucceeded()
			if entries := st.entries(); entries != test.entries || st.asked != 1 {
				t.Errorf("%d entries after %d model calls, want %d", entries, st.asked, test.entries)
			}
		})
	}
}

// entries is the number of entries that the journal of the Session has.
func (st *stage) entries() int {
	st.t.Helper()
	session := journal.Session{Namespace: "ns", Name: "demo", UID: "session-uid"}
	for ordinal := int64(1); ; ordinal++ {
		_, err := st.store.Get(st.t.Context(), session, ordinal)
		if errors.Is(err, journal.ErrNotFound) {
			return int(ordinal - 1)
		}
		if err != nil {
			st.t.Fatal(err)
		}
	}
}

func TestAResponseIsDeliveredAsSoonAsTheJournalStoresEntries(t *testing.T) {
	for name, wait := range map[string]time.Duration{"after a moment": time.Second, "after a while": 5 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			st := newStage(t)
			broken := st.breakStore(errors.New("the connection was lost"))
			st.run(wait)
			broken.cause = nil
			st.run(step.UndeliveredRetention - wait)
			st.expectSucceeded()
			if st.asked != 1 {
				t.Errorf("the model was called %d times", st.asked)
			}
		})
	}
}

// While nothing changes, a Turn that waits for the journal is not written.
func TestATurnThatWaitsForTheJournalIsWrittenOnce(t *testing.T) {
	st := newStage(t)
	st.breakStore(errors.New("the connection was lost"))
	st.run(time.Minute)
	st.expectStalled(v1alpha1.ReasonJournalRefused, "is kept until")
	version := st.turn().ResourceVersion
	st.run(5 * time.Minute)
	if got := st.turn().ResourceVersion; got != version {
		t.Errorf("version %s after %s", got, version)
	}
}

func TestATurnWhoseResponseWasDroppedIsCancelled(t *testing.T) {
	st := newStage(t)
	broken := st.breakStore(errors.New("the connection was lost"))
	st.run(step.UndeliveredRetention + time.Minute)
	turn := st.turn()
	turn.Spec.DesiredState, turn.Generation = v1alpha1.DesiredStateCancelled, 2
	if err := st.client.Update(t.Context(), turn); err != nil {
		t.Fatal(err)
	}
	st.run(time.Minute)
	broken.cause = nil
	st.run(time.Minute)
	if got := st.turn().Status.Phase; got != v1alpha1.TurnPhaseCancelled || st.asked != 1 {
		t.Errorf("phase %s after %d model calls", got, st.asked)
	}
}
