package turn

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/host"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
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
	st.r.Host.Log = journal.New(broken, journal.Options{Clock: st.r.Clock})
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

// No error of the API server but a refusal tells whether a later append succeeds: the response is paid for once, the
// Turn holds no place meanwhile, and a dry run is not enough to pay for another one.
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
			st.run(host.KeepUnwritten)
			st.expectStalled(v1alpha1.ReasonJournalRefused, "was dropped after 10m0s", "No model is called before an entry is accepted")
			st.expectKept(none)
			st.run(5 * time.Hour)
			st.expectStalled(v1alpha1.ReasonJournalRefused, "No model is called before an entry is accepted")
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

func TestAResponseIsDeliveredAsSoonAsTheJournalStoresEntries(t *testing.T) {
	for name, wait := range map[string]time.Duration{"after a moment": time.Second, "after a while": 5 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			st := newStage(t)
			broken := st.breakStore(errors.New("the connection was lost"))
			st.run(wait)
			broken.cause = nil
			st.run(host.KeepUnwritten - wait)
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
	st.run(host.KeepUnwritten + time.Minute)
	turn := st.turn()
	turn.Spec.DesiredState, turn.Generation = v1alpha1.DesiredCancelled, 2
	if err := st.client.Update(t.Context(), turn); err != nil {
		t.Fatal(err)
	}
	st.run(time.Minute)
	broken.cause = nil
	st.run(time.Minute)
	if got := st.turn().Status.Phase; got != v1alpha1.TurnCancelled || st.asked != 1 {
		t.Errorf("phase %s after %d model calls", got, st.asked)
	}
}
