package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/capstan-dev/capstan/internal/runtime/record"
)

// StoreName is the name of the store that has the values of a Session.
const StoreName = "storage"

const (
	// MaxKeyBytes is the maximum length of a key.
	MaxKeyBytes = 256
	// MaxValueBytes is the maximum size of a value.
	MaxValueBytes = 64 << 10
	// MaxKeys is the maximum number of keys of a Session.
	MaxKeys = 1024
	// MaxBytes is the maximum size of all values of a Session.
	MaxBytes = 4 << 20

	// prefix of the records of values. Other records of the store have other ones.
	prefix = "value/"
)

// Info describes a value without it.
type Info struct {
	// Key of the value.
	Key string `json:"key"`
	// Size of the value in bytes.
	Size int64 `json:"size"`
	// Created and Updated are when the key was set first and last.
	Created time.Time `json:"created_at"`
	Updated time.Time `json:"updated_at"`
}

// Value is a value with its key.
type Value struct {
	Info
	// Value is the text.
	Value string `json:"value"`
}

// Written is the result of setting a key.
type Written struct {
	// Size of the value in bytes.
	Size int64 `json:"size"`
	// Created reports whether the key did not exist before.
	Created bool `json:"created"`
}

// Storage has the values of a Session. It is safe for concurrent use.
type Storage struct {
	store record.Store
	scope record.Scope
}

// Of returns the storage of a Session.
func Of(store record.Store, of record.Session) *Storage {
	return &Storage{store: store, scope: ScopeOf(of)}
}

// ScopeOf returns the store of a Session.
func ScopeOf(of record.Session) record.Scope {
	return of.Scope(StoreName)
}

// Set sets the value of a key (KV-01). The error has a *record.ExplainedError for a key or a value that cannot be
// stored.
func (s *Storage) Set(ctx context.Context, cause record.Cause, key, value string) (*Written, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	if len(value) > MaxValueBytes || !utf8.ValidString(value) {
		return nil, record.Explainf("The value of %q has %d bytes, or is not valid UTF-8. A value is a text of at most %d "+
			"bytes.", key, len(value), MaxValueBytes)
	}
	written := &Written{}
	return written, s.change(ctx, cause, written,
		func(_ context.Context, x *record.Index) (*record.Operation, any, error) {
			there, found := x.Find(prefix + key)
			keys, size := count(x)
			if !found && keys >= MaxKeys || size-there.Size+int64(len(value)) > MaxBytes {
				return nil, nil, record.Explainf("%s", full)
			}
			o := &record.Operation{Put: []record.Put{{Key: prefix + key, Value: []byte(value)}}}
			return o, Written{Size: int64(len(value)), Created: !found}, nil
		})
}

// Get returns the value of a key; nil if it does not exist.
func (s *Storage) Get(ctx context.Context, key string) (*Value, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	item, value, err := s.store.Get(ctx, s.scope, prefix+key)
	if errors.Is(err, record.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the value of %q: %w", key, err)
	}
	return &Value{Info: infoOf(item), Value: string(value)}, nil
}

// deleted is the result of a deletion.
type deleted struct {
	Existed bool `json:"existed"`
}

// Delete deletes a key with its value, and reports whether it existed.
func (s *Storage) Delete(ctx context.Context, cause record.Cause, key string) (bool, error) {
	if err := checkKey(key); err != nil {
		return false, err
	}
	result := &deleted{}
	err := s.change(ctx, cause, result, func(_ context.Context, x *record.Index) (*record.Operation, any, error) {
		if _, found := x.Find(prefix + key); !found {
			return nil, deleted{}, nil
		}
		return &record.Operation{Delete: []string{prefix + key}}, deleted{Existed: true}, nil
	})
	return result.Existed, err
}

// List describes the values whose keys begin with a text, in the order of their keys.
func (s *Storage) List(ctx context.Context, begin string) ([]Info, error) {
	x, err := s.store.List(ctx, s.scope)
	if err != nil {
		return nil, err
	}
	infos := []Info{}
	for _, item := range x.Items {
		if strings.HasPrefix(item.Key, prefix+begin) {
			infos = append(infos, infoOf(item))
		}
	}
	return infos, nil
}

// full is the text of the error of a Session that has no room.
var full = fmt.Sprintf(
	"The storage is full: a session has at most %d keys, with values of %d bytes in all. Delete some.", MaxKeys, MaxBytes)

// change carries out a change.
func (s *Storage) change(ctx context.Context, cause record.Cause, into any, decide record.DecideWith) error {
	return record.Explain(record.Change(ctx, s.store, s.scope, cause, into, decide), full,
		"The stores of the namespace are full together. Delete values or files, or ask for sessions to be deleted.")
}

// count returns the number of values and their size.
func count(x *record.Index) (keys int, size int64) {
	for _, item := range x.Items {
		if strings.HasPrefix(item.Key, prefix) {
			keys++
			size += item.Size
		}
	}
	return keys, size
}

// checkKey returns why a text cannot be a key; nil if it can.
func checkKey(key string) error {
	if key == "" || len(key) > MaxKeyBytes || !utf8.ValidString(key) ||
		strings.ContainsFunc(key, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return record.Explainf("%.64q cannot be a key: it must have 1 to %d bytes of printable characters.", key, MaxKeyBytes)
	}
	return nil
}

func infoOf(item record.Item) Info {
	return Info{
		Key: strings.TrimPrefix(item.Key, prefix), Size: item.Size, Created: item.Created.UTC(), Updated: item.Modified.UTC(),
	}
}
