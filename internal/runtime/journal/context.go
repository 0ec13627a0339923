package journal

import (
	"context"
	"fmt"
)

// MaxContextBytes is the most that the content of a context may take. It must fit into an entry, in base64, beside what
// else an entry has that is not split.
const MaxContextBytes = 256 * 1024

// latest returns the newest context of a journal that had another one before: one without content is the same.
func latest(before, used *ContextRef) *ContextRef {
	if used.Ordinal > 0 {
		return used
	}
	if before == nil || before.Digest != used.Digest {
		return nil
	}
	return &ContextRef{Turn: used.Turn, Digest: used.Digest, Ordinal: before.Ordinal}
}

// Context returns the content of a context that a View refers to.
func (l *Log) Context(ctx context.Context, s Session, ref *ContextRef) ([]byte, error) {
	e, err := l.must(ctx, s, ref.Ordinal)
	if err != nil {
		return nil, err
	}
	if p := e.spec.Context; p != nil && p.Digest == ref.Digest && len(p.Content) > 0 {
		return p.Content, nil
	}
	return nil, fmt.Errorf("%w: the entry at ordinal %d of Session %s/%s has no context %s",
		ErrCorrupt, ref.Ordinal, s.Namespace, s.Name, ref.Digest)
}
