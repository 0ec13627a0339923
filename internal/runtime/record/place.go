package record

import (
	"context"

	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
)

// placed marks the context of an operation that has a place.
type placed struct{}

// enter waits for a place: an index and a value take memory while they are decoded. A read that an operation makes
// while it decides uses the place of the operation. The caller must call leave.
func (s *objectStore) enter(ctx context.Context, scope Scope) (inside context.Context, leave func(), err error) {
	if s.o.Places == nil || ctx.Value(placed{}) != nil {
		return ctx, func() {}, ctx.Err()
	}
	share, err := s.o.Places.Request(fairshare.Request{
		Namespace: scope.Namespace, Amount: fairshare.Amount{Places: 1}, Continues: true,
	})
	if err == nil {
		err = share.Wait(ctx)
	}
	if err != nil {
		return ctx, func() {}, err
	}
	return context.WithValue(ctx, placed{}, true), share.Release, nil
}
