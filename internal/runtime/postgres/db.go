package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/capstan-dev/capstan/internal/runtime/backoff"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
)

// tries bounds how often a statement is sent that the server aborts for another one.
const tries = 5

// pauses are those between these tries.
var pauses = backoff.Exponential{First: 5 * time.Millisecond, Factor: 2, Longest: 100 * time.Millisecond}

// DB is a database. Its connections are shared fairly between namespaces: one that sends many statements leaves some
// connections to the others. It is safe for concurrent use.
type DB struct {
	config Config
	pool   *pgxpool.Pool
	places *fairshare.Pool
}

// Open returns a database. It connects when it is used first.
func Open(ctx context.Context, c Config) (*DB, error) {
	c = c.withDefaults()
	config, err := c.pool()
	if err != nil {
		return nil, fmt.Errorf("configuring PostgreSQL: %w", err)
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("configuring PostgreSQL: %w", err)
	}
	total := int64(c.MaxConnections)
	places := fairshare.NewPool(fairshare.Options{
		Total: fairshare.Amount{Places: total}, Waited: c.Waited,
		// At least one is left for others, however few there are.
		PerNamespace: fairshare.Amount{Places: total - max(1, total/8)},
	})
	return &DB{config: c, pool: pool, places: places}, nil
}

// Close closes all connections, once their statements have ended.
func (d *DB) Close() { d.pool.Close() }

// Stat returns the state of the connections.
func (d *DB) Stat() *pgxpool.Stat { return d.pool.Stat() }

// Places returns the places of the connections, for metrics.
func (d *DB) Places() *fairshare.Pool { return d.places }

// Run sends statements on a connection.
type Run func(context.Context, *pgx.Conn) error

// Read runs statements that change nothing, for a namespace on one connection. They are sent again when the connection
// fails. It waits for a connection until the context ends.
func (d *DB) Read(ctx context.Context, namespace string, run Run) error {
	return d.query(ctx, namespace, false, run, func(err error) bool {
		return again(err) || OutcomeOf(err) == OutcomeUnknown && !errors.Is(err, pgx.ErrNoRows)
	})
}

// Write runs statements that are one transaction, for a namespace on one connection. They are sent again only when the
// server has aborted that transaction, or has not received them. It waits for a connection until the context ends; what
// has begun is not cancelled with the context.
func (d *DB) Write(ctx context.Context, namespace string, run Run) error {
	return d.query(ctx, namespace, true, run, again)
}

func (d *DB) query(ctx context.Context, namespace string, write bool, run Run, again func(error) bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	share, err := d.places.Request(fairshare.Request{Namespace: namespace, Amount: fairshare.Amount{Places: 1}})
	if err != nil {
		return fmt.Errorf("waiting for a connection to PostgreSQL: %w", err)
	}
	defer share.Release()
	if err := share.Wait(ctx); err != nil {
		return fmt.Errorf("waiting for a connection to PostgreSQL: %w", err)
	}
	for try := 1; ; try++ {
		began := time.Now()
		err := d.once(ctx, run)
		if d.config.Observe != nil {
			observed := err
			if errors.Is(err, pgx.ErrNoRows) {
				observed = nil
			}
			d.config.Observe(write, time.Since(began), observed)
		}
		if err == nil || !again(err) || try == tries {
			return err
		}
		if gone(err) {
			d.pool.Reset()
		}
		if wait := backoff.Wait(ctx, pauses.After(try)); wait != nil {
			return err
		}
	}
}

func (d *DB) once(ctx context.Context, run Run) error {
	conn, err := d.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.config.StatementTimeout+grace)
	defer cancel()
	return newError(run(ctx, conn.Conn()))
}

// acquire returns a connection. Nothing was sent when it fails.
func (d *DB) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.config.StatementTimeout)
	defer cancel()
	conn, err := d.pool.Acquire(ctx)
	if err == nil {
		return conn, nil
	}
	classified := newError(err)
	if e, ok := classified.(*Error); ok && e.Outcome == OutcomeUnknown { //nolint:errorlint // newError returns it so
		e.Outcome = OutcomeAborted
	}
	return nil, classified
}
