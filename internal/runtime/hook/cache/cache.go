// Package cache keeps values that are made of the texts of tenants: compiled expressions, checked scripts. It bounds
// them by bytes, and divides both the bytes and the work between namespaces.
package cache

import (
	"context"
	"fmt"

	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
)

const (
	// places is how many texts are worked on at a time, of which a namespace has one.
	places = 2
	// entryBytes is what an entry takes besides its text and its value.
	entryBytes = 512
)

// Values are values by text, of each namespace its own. They are safe for concurrent use.
type Values[V any] struct {
	kept      *fairshare.Cache[string, V]
	producing *fairshare.Pool
}

// New returns values that take at most a number of bytes together.
func New[V any](bytes int64) *Values[V] {
	return &Values[V]{
		kept: fairshare.NewCache[string, V](bytes),
		producing: fairshare.NewPool(fairshare.Options{
			Total: fairshare.Amount{Places: places}, PerNamespace: fairshare.Amount{Places: 1},
		}),
	}
}

// Of returns the value of a text, and produces it if it is not kept. A namespace produces one after the other. The
// error is that of a context which ends before it is the text's turn.
func (v *Values[V]) Of(
	ctx context.Context, namespace, text string, produce func(text string) (value V, bytes int64),
) (V, error) {
	if value, ok := v.kept.Get(namespace, text); ok {
		return value, nil
	}
	var none V
	share, err := v.producing.Request(fairshare.Request{Namespace: namespace, Amount: fairshare.Amount{Places: 1}})
	if err != nil {
		return none, err
	}
	defer share.Release()
	if err := share.Wait(ctx); err != nil {
		return none, fmt.Errorf("waiting for other expressions and scripts of the namespace: %w", err)
	}
	if value, ok := v.kept.Get(namespace, text); ok {
		return value, nil
	}
	value, bytes := produce(text)
	v.kept.Keep(namespace, text, value, bytes+int64(len(text))+entryBytes)
	return value, nil
}
