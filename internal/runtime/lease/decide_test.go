package lease

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

var noon = time.Date(2031, 5, 4, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) *metav1.Time { return ptr.To(metav1.NewTime(noon.Add(d))) }

// leaseOf is a lease of an hour that was created at noon, with changes.
func leaseOf(change func(*v1alpha1.LeasedResource)) *v1alpha1.LeasedResource {
	l := &v1alpha1.LeasedResource{}
	l.CreationTimestamp = *at(0)
	l.Finalizers = []string{v1alpha1.FinalizerLease}
	l.Spec.DesiredState = v1alpha1.LeaseDesiredStateActive
	l.Spec.Duration = metav1.Duration{Duration: time.Hour}
	if change != nil {
		change(l)
	}
	return l
}

// in is a change to a state that lasts until a time.
func in(state v1alpha1.LeaseState, until time.Duration) func(*v1alpha1.LeasedResource) {
	return func(l *v1alpha1.LeasedResource) { l.Status.State, l.Status.ExpiresAt = state, at(until) }
}

func both(a, b func(*v1alpha1.LeasedResource)) func(*v1alpha1.LeasedResource) {
	return func(l *v1alpha1.LeasedResource) {
		a(l)
		b(l)
	}
}

func desired(state v1alpha1.LeaseDesiredState) func(*v1alpha1.LeasedResource) {
	return func(l *v1alpha1.LeasedResource) { l.Spec.DesiredState = state }
}

func deletedAt(d time.Duration) func(*v1alpha1.LeasedResource) {
	return func(l *v1alpha1.LeasedResource) { l.DeletionTimestamp = at(d) }
}

func claimedUntil(d time.Duration) func(*v1alpha1.LeasedResource) {
	return func(l *v1alpha1.LeasedResource) {
		l.Status.State, l.Status.ClaimExpiresAt = v1alpha1.LeaseStateCleaning, at(d)
	}
}

func finishedAt(state v1alpha1.LeaseState, d time.Duration) func(*v1alpha1.LeasedResource) {
	return func(l *v1alpha1.LeasedResource) { l.Status.State, l.Status.FinishedAt = state, at(d) }
}

func changedSpec(l *v1alpha1.LeasedResource) { l.Generation = 2 }

func withoutFinalizer(l *v1alpha1.LeasedResource) { l.Finalizers = nil }

// Rules: LEASE-03, LEASE-04.
func TestWhatIsToBeDoneAboutALease(t *testing.T) {
	const active, failed = v1alpha1.LeaseStateActive, v1alpha1.LeaseStateCleanupFailed
	const released, abandoned = v1alpha1.LeaseStateReleased, v1alpha1.LeaseStateAbandoned
	wait := func(d time.Duration) Verdict { return Verdict{At: noon.Add(d)} }
	for name, test := range map[string]struct {
		lease func(*v1alpha1.LeasedResource)
		now   time.Duration
		want  Verdict
	}{
		"a new one begins":                 {now: 0, want: Verdict{Action: Begin}},
		"an active one waits":              {in(active, time.Hour), time.Minute, wait(time.Hour)},
		"an expired one is claimed":        {in(active, time.Hour), time.Hour, Verdict{Action: Claim}},
		"a claim lasts":                    {claimedUntil(time.Minute), 59 * time.Second, wait(time.Minute)},
		"a stale claim is claimed":         {claimedUntil(time.Minute), time.Minute, Verdict{Action: Claim}},
		"a failure waits":                  {in(failed, time.Minute), 0, wait(time.Minute)},
		"a failure is repeated":            {in(failed, time.Minute), time.Minute, Verdict{Action: Claim}},
		"a finished one loses a finalizer": {finishedAt(released, 0), 0, Verdict{Action: Finish}},
		"a finished one is kept": {
			both(finishedAt(released, 0), withoutFinalizer), Retention - 1, wait(Retention),
		},
		"a finished one is deleted": {
			both(finishedAt(abandoned, 0), withoutFinalizer), Retention, Verdict{Action: Delete},
		},
		"a finished one that is deleted": {
			both(both(finishedAt(released, 0), withoutFinalizer), deletedAt(0)), Retention, Verdict{},
		},
		"a released one is claimed": {
			both(in(active, time.Hour), desired(v1alpha1.LeaseDesiredStateReleased)), 0, Verdict{Action: Claim},
		},
		"a released one that failed waits": {
			both(in(failed, time.Minute), desired(v1alpha1.LeaseDesiredStateReleased)), 0, wait(time.Minute),
		},
		"a deleted one is claimed":      {both(in(active, time.Hour), deletedAt(0)), 0, Verdict{Action: Claim}},
		"a deleted one waits for hours": {both(in(failed, 3*time.Hour), deletedAt(0)), 0, wait(Patience)},
		"a deleted one is abandoned":    {both(in(failed, 3*time.Hour), deletedAt(0)), Patience, Verdict{Action: Abandon}},
		"a deleted one that was never cleaned up is abandoned": {
			both(in(active, 3*time.Hour), deletedAt(0)), Patience, Verdict{Action: Abandon},
		},
		"a deleted one without a status is abandoned": {deletedAt(0), Patience, Verdict{Action: Abandon}},
		"a deleted one whose claim is stale is abandoned": {
			both(claimedUntil(time.Minute), deletedAt(0)), Patience, Verdict{Action: Abandon},
		},
		"a deleted one that is cleaned up waits for its claim": {
			both(claimedUntil(Patience+time.Minute), deletedAt(0)), Patience, wait(Patience + time.Minute),
		},
		"a failed one that is released now is claimed": {
			both(both(in(failed, time.Hour), desired(v1alpha1.LeaseDesiredStateReleased)), changedSpec), 0,
			Verdict{Action: Claim},
		},
		"a failed one that is deleted now is claimed": {
			both(both(in(failed, time.Hour), deletedAt(0)), changedSpec), 0, Verdict{Action: Claim},
		},
		"a failed one that is active again is observed": {
			both(in(failed, time.Hour), changedSpec), 0, Verdict{Action: Observe},
		},
		"a finished one is observed": {
			both(both(finishedAt(released, 0), withoutFinalizer), changedSpec), 0, Verdict{Action: Observe},
		},
		"an abandoned one is let go": {
			both(in(active, time.Hour), desired(v1alpha1.LeaseDesiredStateAbandoned)), 0, Verdict{Action: Abandon},
		},
		"an abandoned one is let go while it is cleaned up": {
			both(claimedUntil(time.Minute), desired(v1alpha1.LeaseDesiredStateAbandoned)), 0, Verdict{Action: Abandon},
		},
	} {
		if got := Decide(leaseOf(test.lease), noon.Add(test.now)); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

// Rules: LEASE-01, LEASE-04.
func TestALeaseLivesThroughFailuresAndUses(t *testing.T) {
	l := leaseOf(nil)
	l.Status = First(l)
	if !l.Status.ExpiresAt.Equal(at(time.Hour)) || l.Status.State != v1alpha1.LeaseStateActive {
		t.Fatalf("it begins as %+v", l.Status)
	}
	if l.Status = Use(l, 10*time.Minute, noon); !l.Status.ExpiresAt.Equal(at(time.Hour)) {
		t.Errorf("a use makes it shorter: %v", l.Status.ExpiresAt)
	}
	for n, pause := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second} {
		now := noon.Add(time.Duration(n) * time.Hour)
		l.Status = Begun(l, 30*time.Second, now)
		claim := *l.Status.CleanupStartedAt
		if !Claimed(&l.Status, claim) || !l.Status.ClaimExpiresAt.Equal(at(now.Sub(noon)+40*time.Second)) {
			t.Errorf("the claim is %+v", l.Status)
		}
		l.Status = Begun(l, 30*time.Second, now.Add(time.Minute))
		if l.Status.CleanupAttempts != int32(n+1) || Claimed(&l.Status, claim) {
			t.Errorf("a stale claim is claimed again as %+v", l.Status)
		}
		l.Status = Failed(l, strings.Repeat("é", 1000), now)
		if !l.Status.ExpiresAt.Equal(at(now.Sub(noon)+pause)) || l.Status.CleanupFailures != int32(n+1) ||
			len(l.Status.LastError) > 1024 || l.Status.CleanupStartedAt != nil {
			t.Errorf("failure %d leads to %+v", n, l.Status)
		}
	}
	l.Status = Begun(l, time.Second, noon)
	l.Status = Use(l, time.Hour, noon)
	if l.Status.State != v1alpha1.LeaseStateActive || l.Status.CleanupStartedAt != nil || l.Status.CleanupFailures != 0 ||
		l.Status.LastError != "" || l.Status.CleanupAttempts != 4 || !l.Status.ExpiresAt.Equal(at(time.Hour)) {
		t.Errorf("a use during a clean-up leads to %+v", l.Status)
	}
	l.Status = Ended(l, v1alpha1.LeaseStateReleased, noon)
	if !Finished(l) || l.Status.ExpiresAt != nil || !l.Status.FinishedAt.Equal(at(0)) {
		t.Errorf("it ends as %+v", l.Status)
	}
}
