package recordtest

import (
	"context"
	"errors"
	"sync"

	"github.com/capstan-dev/capstan/internal/runtime/record"
)

// errLost is the error of a write that was carried out.
var errLost = errors.New("the answer was lost")

// lossy are objects whose n-th write of an index is carried out and reported as failed.
type lossy struct {
	record.Objects
	mu   sync.Mutex
	left int
}

// Lossy returns objects whose n-th write of an index is carried out and reported as failed. The first write is 1.
func Lossy(objects record.Objects, n int) record.Objects {
	return &lossy{Objects: objects, left: n}
}

// WriteIndex implements record.Objects.
func (l *lossy) WriteIndex(ctx context.Context, scope record.Scope, index record.Stored) error {
	err := l.Objects.WriteIndex(ctx, scope, index)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left--
	if err == nil && l.left == 0 {
		return errLost
	}
	return err
}
