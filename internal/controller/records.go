package controller

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/shares"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/memory"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/resource"
	"github.com/capstan-dev/capstan/internal/runtime/sessiondb"
	"github.com/capstan-dev/capstan/internal/runtime/sessionfs"
	"github.com/capstan-dev/capstan/internal/runtime/sessionimage"
	"github.com/capstan-dev/capstan/internal/runtime/storage"
)

// storesOf returns the stores that a namespace may have: the files, the values, the databases, the memories, the images
// and the registered resources of its Sessions. Background tasks and the tools of MCPServers are bounded by their
// number.
func storesOf(cached client.Reader) func(context.Context, string) ([]record.Scope, error) {
	return func(ctx context.Context, namespace string) ([]record.Scope, error) {
		var sessions v1alpha1.SessionList
		if err := cached.List(ctx, &sessions, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing the Sessions: %w", err)
		}
		var scopes []record.Scope
		for i := range sessions.Items {
			session := &sessions.Items[i]
			of := record.Session{Namespace: namespace, Name: session.Name, UID: session.UID}
			scopes = append(scopes, sessionfs.ScopeOf(of), storage.ScopeOf(of), sessiondb.ScopeOf(of),
				memory.ScopeOf(of), sessionimage.ScopeOf(of), resource.ScopeOf(of))
		}
		return scopes, nil
	}
}

// records returns the backend of the stores of Sessions.
func (o Options) records(cached client.Reader) record.Store {
	bytes := fairshare.NewRate(float64(o.RecordBytesPerSecond), recordBurst, shares.Waited(shares.RecordBytes))
	return record.New(o.Records, record.Options{
		Limiter: bytes,
		Ceiling: &record.Ceiling{Bytes: o.MaxNamespaceRecordBytes, Stores: storesOf(cached)},
		Places: fairshare.NewPool(fairshare.Options{
			Total: fairshare.Amount{Places: recordPlaces}, Waited: shares.Waited(shares.RecordOperations),
		}),
		KeptBytes: o.RecordCacheBytes,
		Clock:     o.Clock,
	})
}
