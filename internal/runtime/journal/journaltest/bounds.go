package journaltest

import (
	"errors"

	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

// managerBounds has journals reach the bounds that the manager sets, above those of their Sessions.
func managerBounds(f *fixture) {
	expectFull := func(log *journal.Log, s journal.Session, by journal.LimitedBy, limit int64) {
		f.t.Helper()
		_, err := log.Append(f.t.Context(), s, respond(turn("large"), 1, 1, noise(3, 40_000)))
		var full *journal.FullError
		if !errors.Is(err, journal.ErrFull) || !errors.As(err, &full) || full.By != by || full.Limit != limit {
			f.t.Fatalf("bounded by %s: %v", by, err)
		}
	}
	const limit = 100_000
	f.session.Limit = 1 << 30
	bounded := journal.New(f.store, journal.Options{MaxBytes: 30_000})
	expectFull(bounded, f.session, journal.ByManager, 30_000)
	if _, err := bounded.Append(f.t.Context(), f.session, cancel(turn("large"), 1, 1)); err != nil {
		f.t.Fatalf("an end that must always fit: %v", err)
	}

	log := journal.New(f.store, journal.Options{MaxNamespaceBytes: limit})
	first, second, known := f.another(), f.another(), f.another()
	first.append(log, respond(turn("a"), 1, 1, noise(1, 40_000)))
	log.Measured(known.session, 30_000)
	expectFull(log, second.session, journal.ByNamespace, limit)
	elsewhere := second.session
	elsewhere.Namespace = "kube-public"
	if _, err := log.Probe(f.t.Context(), elsewhere, turn("a"), 1, 1); err != nil {
		f.t.Fatal(err)
	}
	log.Forget(known.session)
	second.append(log, respond(turn("a"), 1, 1, noise(2, 40_000)))
	first.append(log, respond(turn("b"), 1, 2, "short"))
	expectFull(log, f.another().session, journal.ByNamespace, limit)
	// An operation that was in progress when the Session was deleted does not add its bytes again.
	log.Forget(first.session)
	log.Measured(first.session, 40_000)
	if _, err := log.Probe(f.t.Context(), f.another().session, turn("a"), 1, 1); err != nil {
		f.t.Fatalf("a Session that was deleted takes room: %v", err)
	}
}
