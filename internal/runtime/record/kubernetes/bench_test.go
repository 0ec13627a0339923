package kubernetes_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/record/kubernetes"
	"github.com/capstan-dev/capstan/internal/runtime/sessionfs"
	"github.com/capstan-dev/capstan/internal/testing/ratio"
)

// filled is a store with so many small values, and one of 100 KB under the key /large.
func filled(b *testing.B, keys int) (record.Store, record.Scope) {
	objects, err := kubernetes.ForConfig(config, nil)
	if err != nil {
		b.Fatal(err)
	}
	scope := scopeIn("default", "bench")
	scope.UID = types.UID(uuid.NewString())
	store := record.New(objects, record.Options{})
	o := record.Operation{
		Cause: record.Cause{Key: "fill"},
		Put:   []record.Put{{Key: "/large", Value: make([]byte, 100_000)}},
	}
	for i := range keys {
		o.Put = append(o.Put, record.Put{Key: fmt.Sprintf("/source/%04d.go", i), Value: []byte("package main")})
	}
	if _, err := store.Apply(b.Context(), scope, o); err != nil {
		b.Fatal(err)
	}
	return store, scope
}

// BenchmarkGet reads a value of 100 KB: its index, and its blob.
func BenchmarkGet(b *testing.B) {
	for _, keys := range []int{10, 1_000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			store, scope := filled(b, keys)
			for b.Loop() {
				if _, _, err := store.Get(b.Context(), scope, "/large"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkUpdate writes a small value: one read and one write of the index.
func BenchmarkUpdate(b *testing.B) {
	for _, keys := range []int{10, 1_000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			store, scope := filled(b, keys)
			for step := int64(1); b.Loop(); step++ {
				_, err := store.Update(b.Context(), scope, record.Cause{Step: step, Key: "bench"},
					func(context.Context, *record.Index) (*record.Operation, error) {
						return &record.Operation{Put: []record.Put{{Key: "/a", Value: fmt.Append(nil, step)}}}, nil
					})
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkFiles compares what the tools for files do in a Session with 1,000 files with reading one Record: that of a
// file of 100 KB. A warm process keeps what it has read, as the manager does.
func BenchmarkFiles(b *testing.B) {
	objects, err := kubernetes.ForConfig(config, nil)
	if err != nil {
		b.Fatal(err)
	}
	session := sessionfs.Session{Namespace: "default", Name: "bench", UID: types.UID(uuid.NewString())}
	store := record.New(objects, record.Options{})
	o := record.Operation{
		Cause: record.Cause{Key: "fill"}, Put: []record.Put{{Key: "/large", Value: make([]byte, 100_000), Kind: "file"}},
	}
	for i := range 1_000 {
		o.Put = append(o.Put, record.Put{
			Key: fmt.Sprintf("/source-%04d.go", i), Value: []byte("package main"), Encoding: "text", Kind: "file",
		})
	}
	scope := sessionfs.ScopeOf(session)
	if _, err := store.Apply(b.Context(), scope, o); err != nil {
		b.Fatal(err)
	}
	x, err := store.List(b.Context(), scope)
	if err != nil {
		b.Fatal(err)
	}
	large, _ := x.Find("/large")
	one := func() error { _, err := store.Load(b.Context(), scope, large); return err }
	for _, memory := range []struct {
		name  string
		bytes int64
	}{{"cold", 0}, {"warm", 16 << 20}} {
		files := sessionfs.New(record.New(objects, record.Options{KeptBytes: memory.bytes}), session, nil)
		for name, operation := range map[string]func() error{
			"read":   func() error { _, err := files.Read(b.Context(), "/large"); return err },
			"list":   func() error { _, err := files.List(b.Context(), "/"); return err },
			"stat":   func() error { _, err := files.Stat(b.Context(), "/source-0500.go"); return err },
			"search": func() error { _, err := files.Grep(b.Context(), "main$", "source-05"); return err },
		} {
			b.Run(name+"/"+memory.name, func(b *testing.B) {
				ratio.Report(b, one, operation)
			})
		}
	}
}
