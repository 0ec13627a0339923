package journaltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

// OnDisk returns a store that keeps entries in a directory, so that they do not count as memory of the process.
func OnDisk(directory string) journal.Store { return diskStore{directory} }

type diskStore struct{ directory string }

func (d diskStore) file(s journal.Session, ordinal int64) string {
	return filepath.Join(d.directory, fmt.Sprintf("%s-%d", s.UID, ordinal))
}

// Get implements journal.Store.
func (d diskStore) Get(_ context.Context, s journal.Session, ordinal int64) (*v1alpha1.JournalEntrySpec, error) {
	raw, err := os.ReadFile(d.file(s, ordinal))
	if os.IsNotExist(err) {
		return nil, journal.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	e := &v1alpha1.JournalEntrySpec{}
	return e, json.Unmarshal(raw, e)
}

// Create implements journal.Store.
func (d diskStore) Create(_ context.Context, s journal.Session, e *v1alpha1.JournalEntrySpec) error {
	raw, err := json.Marshal(e)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(d.file(s, e.Ordinal), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if os.IsExist(err) {
		return journal.ErrExists
	}
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	return errors.Join(err, f.Close())
}
