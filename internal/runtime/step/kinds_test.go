package step

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/config"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// kindRow is a kind of error: where it arises, and how the Turn ends.
type kindRow struct {
	kind string
	// arrange prepares the error, in the model, the configuration or the Turn.
	arrange func(b *bench, c *turnstate.Config, t *turnstate.Turn)
	// code of the Turn's error; empty for success.
	code v1alpha1.ErrorCode
	// calls is how often the model is called.
	calls int
	// waits reports whether the step stays open until something has changed.
	waits bool
}

// answers makes the model return an error.
func answers(err error) func(*bench, *turnstate.Config, *turnstate.Turn) {
	return func(b *bench, _ *turnstate.Config, _ *turnstate.Turn) {
		b.failing(slices.Repeat([]error{err}, 9)...)
	}
}

// blockedBy is a dependency that may not be used.
func blockedBy(dependency config.Dependency) func(*bench, *turnstate.Config, *turnstate.Turn) {
	return func(_ *bench, c *turnstate.Config, _ *turnstate.Turn) {
		c.Blocker = &config.Blocker{Dependency: dependency, State: config.DependencyDeleted}
	}
}

// kinds has a row for each kind of error that a step can meet (ERR-04). The kinds that it cannot meet are named in
// docs/design/rules.md, and tools are in the table of TestThePipelineOfACall.
var kinds = []kindRow{
	{kind: "a provider's outage", arrange: answers(unavailable()), code: v1alpha1.ErrorCodeProviderUnavailable, calls: 4},
	{kind: "a provider's limit", arrange: answers(limited(0)), code: v1alpha1.ErrorCodeProviderRateLimited, calls: 4},
	{
		kind: "a provider that is late", arrange: answers(provider.Late("Test", "late")),
		code: v1alpha1.ErrorCodeProviderUnavailable, calls: 1,
	},
	{
		kind: "a request that is refused", arrange: answers(provider.StatusError("Test", "m", 400, 0, "")),
		code: v1alpha1.ErrorCodeProcessingError, calls: 1,
	},
	{
		kind: "a request that is too large", arrange: answers(provider.StatusError("Test", "m", 413, 0, "")),
		code: v1alpha1.ErrorCodeRequestTooLarge, calls: 1,
	},
	{
		kind: "a model that is not available", arrange: answers(provider.StatusError("Test", "m", 404, 0, "")),
		code: v1alpha1.ErrorCodeModelUnavailable, calls: 1,
	},
	{
		kind: "a driver that is not registered", code: v1alpha1.ErrorCodeModelUnavailable,
		arrange: func(_ *bench, c *turnstate.Config, _ *turnstate.Turn) { c.Model.Spec.Provider = "Unknown" },
	},
	{
		kind: "no Model", code: v1alpha1.ErrorCodeModelUnavailable,
		arrange: func(_ *bench, c *turnstate.Config, _ *turnstate.Turn) { c.Model = nil },
	},
	{
		kind: "a configuration that is wrong", arrange: answers(provider.StatusError("Test", "m", 401, 0, "")),
		code: v1alpha1.ErrorCodeProviderMisconfigured, calls: 1,
	},
	{
		kind: "a key that is missing", arrange: answers(&model.KeyError{Model: "m", Reason: v1alpha1.ReasonSecretMissing}),
		calls: 1, waits: true,
	},
	{
		kind: "a Harness that is not found", arrange: blockedBy(config.DependencyHarness),
		code: v1alpha1.ErrorCodeDependencyUnavailable,
	},
	{
		kind: "an Agent that is not found", arrange: blockedBy(config.DependencyAgent),
		code: v1alpha1.ErrorCodeDependencyUnavailable,
	},
	{
		kind: "a journal that is full", code: v1alpha1.ErrorCodeJournalFull, calls: 1,
		arrange: func(_ *bench, _ *turnstate.Config, t *turnstate.Turn) { t.Session.Limit = 1 },
	},
	{
		kind:    "an internal error",
		arrange: answers(errors.New("nil map")),
		code:    v1alpha1.ErrorCodeProcessingError,
		calls:   1,
	},
}

// Rules: ERR-04, ERR-05.
func TestKindsOfErrors(t *testing.T) {
	for _, row := range kinds {
		t.Run(row.kind, func(t *testing.T) {
			b, c, turn := newBench(t), with(), newTurn("demo-1")
			b.pausing()
			row.arrange(b, &c, &turn)
			closed, err := b.ReasonInPlace(t.Context(), turn, c, nil)
			if len(b.asked) != row.calls {
				t.Errorf("the model was called %d times, want %d", len(b.asked), row.calls)
			}
			var keyless *turnstate.MissingKey
			if row.waits {
				if closed != nil || !errors.As(err, &keyless) {
					t.Errorf("the step ended with %+v, %v", closed, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var code v1alpha1.ErrorCode
			if failed := closed.Transition.Error; failed != nil {
				code = failed.Code
			}
			if code != row.code || row.code != "" && closed.Transition.Phase != v1alpha1.TurnPhaseFailed {
				t.Errorf("the Turn is %s with the code %q, want %q", closed.Transition.Phase, code, row.code)
			}
		})
	}
	var unknown *model.UnknownProviderError
	c := with()
	c.Model.Spec.Provider = "Unknown"
	if _, err := newBench(
		t,
	).Models.Driver(
		c.Model,
		model.Access{},
	); !errors.As(err, &unknown) ||
		unknown.Provider != "Unknown" {
		t.Errorf("the driver is missing because of %v", err)
	}
}

// brokenStore is a store whose calls fail with an error.
type brokenStore struct {
	journal.Store
	err error
}

func (s brokenStore) Create(context.Context, journal.Session, *v1alpha1.JournalEntrySpec) error {
	return s.err
}

// TestWhatTheJournalRefusesIsNoEnd: a step that cannot be closed is tried again by its host, which alone decides when
// to end the Turn.
// Rules: ERR-04.
func TestWhatTheJournalRefusesIsNoEnd(t *testing.T) {
	outage := errors.New("no route to the API server")
	for name, want := range map[string]error{"an outage": outage, "a refusal": journal.ErrRefused} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.Runner.Log = journal.New(brokenStore{Store: b.store, err: want}, journal.Options{Clock: b.time.Tick})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if closed, err := b.Cancel(ctx, newTurn("demo-1"), nil); closed != nil || !errors.Is(err, want) {
				t.Errorf("the Turn ended with %+v, %v", closed, err)
			}
		})
	}
}
