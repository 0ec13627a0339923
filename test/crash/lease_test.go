package crash_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// leaseOfHolder begins violations of the invariant that only the holder of a Lease releases it, and that a process ends
// when it has read that another one holds the Lease that it had.
const leaseOfHolder = "LeaseOfHolder"

// witness is the lock of one life of a process. It sees what the process does with its Lease, and dates it by the clock
// of the process.
type witness struct {
	resourcelock.Interface
	// ahead is how far the clock is ahead.
	ahead time.Duration
	// fail notes what must not be.
	fail func(error)
	// holder is the identity in the Lease as it was last read or written. It is only ever that of another process once
	// this one has lost the Lease.
	holder string
	// lost reports whether the process has read that it holds the Lease no longer, and since counts its attempts since.
	lost  bool
	since int
}

// lastAttempts is how many requests for its Lease a process may send when it has lost it: the one that it tries anyway,
// and two to release it.
const lastAttempts = 3

// Get implements resourcelock.Interface.
func (w *witness) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	w.attempt()
	record, raw, err := w.Interface.Get(ctx)
	if err == nil {
		w.lost = w.lost || (w.holder == w.Identity() && record.HolderIdentity != w.holder)
		w.holder = record.HolderIdentity
	}
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (w *witness) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := w.Interface.Create(ctx, w.dated(record))
	if err == nil {
		w.holder = record.HolderIdentity
	}
	return err
}

// Update implements resourcelock.Interface.
func (w *witness) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	w.attempt()
	err := w.Interface.Update(ctx, w.dated(record))
	if err != nil {
		return err
	}
	if record.HolderIdentity == "" && w.holder != w.Identity() {
		w.fail(fmt.Errorf("%s: %s released the Lease that %q held", leaseOfHolder, w.Identity(), w.holder))
	}
	w.holder = record.HolderIdentity
	return nil
}

// attempt counts a request for the Lease.
func (w *witness) attempt() {
	if !w.lost {
		return
	}
	w.since++
	if w.since == lastAttempts+1 {
		w.fail(fmt.Errorf("%s: %s had read that %q holds its Lease, and went on", leaseOfHolder, w.Identity(), w.holder))
	}
}

func (w *witness) dated(record resourcelock.LeaderElectionRecord) resourcelock.LeaderElectionRecord {
	record.AcquireTime = metav1.NewTime(record.AcquireTime.Add(w.ahead))
	record.RenewTime = metav1.NewTime(record.RenewTime.Add(w.ahead))
	return record
}

// fakeLock is a lock whose Lease another process takes over.
type fakeLock struct {
	resourcelock.Interface
	holder string
}

func (*fakeLock) Identity() string { return "former" }

func (f *fakeLock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return &resourcelock.LeaderElectionRecord{HolderIdentity: f.holder}, nil, nil
}

func (f *fakeLock) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	f.holder = record.HolderIdentity
	return nil
}

// The witness distinguishes a manager that releases its own Lease from one that goes on trying when it has lost the
// Lease, and from one that releases that of its successor.
func TestTheWitnessOfALeaseCatchesABrokenManager(t *testing.T) {
	ctx := t.Context()
	for name, test := range map[string]struct {
		successor string
		attempts  int
		releases  bool
		message   string
	}{
		"it releases its own": {successor: "former", releases: true},
		"it ends":             {successor: "successor", attempts: lastAttempts},
		"it goes on":          {successor: "successor", attempts: lastAttempts + 1, message: "and went on"},
		"it releases its successor's": {
			successor: "successor", releases: true, message: "released the Lease that \"successor\" held",
		},
		"it goes on, and all have gone": {successor: "", attempts: lastAttempts + 1, message: "and went on"},
	} {
		t.Run(name, func(t *testing.T) {
			var failed []error
			fake := &fakeLock{}
			w := &witness{Interface: fake, fail: func(err error) { failed = append(failed, err) }}
			_, _, _ = w.Get(ctx)
			_ = w.Update(ctx, resourcelock.LeaderElectionRecord{HolderIdentity: "former"})
			fake.holder = test.successor
			_, _, _ = w.Get(ctx)
			for range test.attempts {
				_, _, _ = w.Get(ctx)
			}
			if test.releases {
				_ = w.Update(ctx, resourcelock.LeaderElectionRecord{})
			}
			found := errors.Join(failed...)
			if (found == nil) != (test.message == "") || (found != nil && !strings.Contains(found.Error(), test.message)) {
				t.Errorf("found %v, want %q", found, test.message)
			}
		})
	}
}
