package controller

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

// journal are the settings of the journal.
func (o Options) journal() journal.Options {
	of := journal.Options{
		CacheBytes: o.JournalCacheBytes, MaxBytes: o.MaxJournalBytes, MaxNamespaceBytes: o.MaxNamespaceJournalBytes,
		Clock: o.Clock,
	}
	if o.Streaming != nil {
		of.OnEntry, of.BeforeFollow = o.Streaming.OnEntry, o.Streaming.BeforeFollow
	}
	return of
}

// streams adds the server of event streams, if there is one.
func (o Options) streams(ctx context.Context, mgr ctrl.Manager, log *journal.Log) error {
	if o.Streaming == nil {
		return nil
	}
	return o.Streaming.SetUp(ctx, mgr, log, o.Clock)
}
