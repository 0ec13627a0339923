package stores

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/backoff"
	"github.com/capstan-dev/capstan/internal/runtime/postgres"
)

const (
	// DefaultRetention is the default of Collector.Retention.
	DefaultRetention = 24 * time.Hour
	// sweepEvery is the time between two sweeps, and pageSize bounds what one statement of a sweep lists.
	sweepEvery = 24 * time.Hour
	pageSize   = 500
	// A sweep that fails is begun again after an hour at the latest: it is the only one that finds missed deletions.
	firstRetry, longestRetry = time.Minute, time.Hour
	// turnsLeft is the time until a Session is looked at again whose Turns are still there: the end of each is recorded
	// first.
	turnsLeft = 30 * time.Second
)

// Database has rows of Sessions.
type Database interface {
	Delete(ctx context.Context, namespace string, uid types.UID) (rows int64, err error)
	Forget(ctx context.Context, namespace string, uid types.UID) error
	Owners(ctx context.Context, before time.Time, behind postgres.Owner, limit int) ([]postgres.Owner, error)
	Deleted(ctx context.Context, before time.Time, limit int) ([]postgres.Owner, error)
}

// owner is a Session whose rows are to be deleted.
type owner struct {
	key types.NamespacedName
	uid types.UID
}

// Collector deletes the rows of Sessions that are gone: of those whose end the manager sees, at once; of those that it
// has missed, once a day.
type Collector struct {
	Database Database
	// Cached reads Sessions and Turns from the cache, Live past it.
	Cached, Live client.Reader
	// Serves reports whether the manager serves a namespace. Rows of others are left alone.
	Serves func(namespace string) bool
	// Retention is how long a Session that was deleted is remembered, so that late writes are refused. Rows that are
	// younger are not looked at in a sweep. Default 24h.
	Retention time.Duration
	// Clock returns the current time.
	Clock func() time.Time

	queue workqueue.TypedRateLimitingInterface[owner]
}

// NewCollector returns a Collector with an empty queue.
func NewCollector(c Collector) *Collector {
	if c.Retention == 0 {
		c.Retention = DefaultRetention
	}
	c.queue = workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[owner](time.Second, 5*time.Minute))
	return &c
}

// Gone deletes the rows of a Session that is gone. It returns at once.
func (c *Collector) Gone(key types.NamespacedName, uid types.UID) { c.queue.Add(owner{key, uid}) }

// NeedLeaderElection implements manager.LeaderElectionRunnable: one manager deletes.
func (c *Collector) NeedLeaderElection() bool { return true }

// Start deletes rows until the context ends.
func (c *Collector) Start(ctx context.Context) error {
	go func() {
		<-ctx.Done()
		c.queue.ShutDown()
	}()
	go c.sweeps(ctx)
	for {
		next, shutdown := c.queue.Get()
		if shutdown {
			return nil
		}
		c.handle(ctx, next)
		c.queue.Done(next)
	}
}

// handle deletes the rows of one Session, unless Turns of it are left.
func (c *Collector) handle(ctx context.Context, o owner) {
	left, err := c.hasTurns(ctx, o)
	if err == nil && left {
		c.queue.AddAfter(o, turnsLeft)
		return
	}
	if err == nil {
		var rows int64
		rows, err = c.Database.Delete(ctx, o.key.Namespace, o.uid)
		deletedRows.Add(float64(rows))
	}
	if err != nil {
		deletions.WithLabelValues(resultFailed).Inc()
		ctrl.Log.WithName("stores").Error(err, "Failed to delete the rows of a Session; retrying", "namespace",
			o.key.Namespace, "session", o.key.Name)
		c.queue.AddRateLimited(o)
		return
	}
	deletions.WithLabelValues(resultDeleted).Inc()
	c.queue.Forget(o)
}

// hasTurns reports whether there are Turns that belong to a Session.
func (c *Collector) hasTurns(ctx context.Context, o owner) (bool, error) {
	var turns v1alpha1.TurnList
	if err := c.Cached.List(ctx, &turns, client.InNamespace(o.key.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing the Turns of namespace %s: %w", o.key.Namespace, err)
	}
	for i := range turns.Items {
		turn := &turns.Items[i]
		if turn.Status.SessionUID == o.uid {
			return true, nil
		}
	}
	return false, nil
}

// sweeps begins a sweep at the start and then every day, and after a failed one earlier.
func (c *Collector) sweeps(ctx context.Context) {
	retries := backoff.Exponential{First: firstRetry, Factor: 2, Longest: longestRetry}
	for failures := 0; ; {
		pause := sweepEvery
		err := c.Sweep(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			failures++
			pause = retries.After(failures)
			ctrl.Log.WithName("stores").Error(err, "Failed to look for rows of Sessions that are gone; retrying",
				"after", pause.String())
		default:
			failures = 0
		}
		if backoff.Wait(ctx, pause) != nil {
			return
		}
	}
}

// Sweep deletes the rows of Sessions that are gone, which the manager has not noticed, and forgets those that were
// deleted before the retention time.
func (c *Collector) Sweep(ctx context.Context) error {
	before := c.Clock().Add(-c.Retention)
	behind := postgres.Owner{}
	for {
		owners, err := c.Database.Owners(ctx, before, behind, pageSize)
		if err != nil {
			return err
		}
		for _, o := range owners {
			behind = o
			gone, err := c.isGone(ctx, o)
			if err != nil {
				return err
			}
			if gone {
				c.Gone(types.NamespacedName{Namespace: o.Namespace, Name: o.Name}, o.UID)
			}
		}
		if len(owners) < pageSize {
			break
		}
	}
	for {
		deleted, err := c.Database.Deleted(ctx, before, pageSize)
		if err != nil {
			return err
		}
		for _, o := range deleted {
			if err := c.Database.Forget(ctx, o.Namespace, o.UID); err != nil {
				return err
			}
			deletions.WithLabelValues(resultForgotten).Inc()
		}
		if len(deleted) < pageSize {
			return nil
		}
	}
}

// isGone reports whether the Session of rows does not exist. The API server decides, not the cache.
func (c *Collector) isGone(ctx context.Context, o postgres.Owner) (bool, error) {
	if o.Kind != postgres.OwnerSession || !c.Serves(o.Namespace) {
		return false, nil
	}
	key := types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
	for _, reader := range []client.Reader{c.Cached, c.Live} {
		session := &v1alpha1.Session{}
		err := reader.Get(ctx, key, session)
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("looking for Session %s: %w", key, err)
		}
		if err == nil && session.UID == o.UID {
			return false, nil
		}
	}
	return true, nil
}
