package record

import (
	"context"
	"encoding/json"
	"fmt"
)

// DecideWith is Decide with a result: it returns the operation, nil for none, and its result, which is encoded as JSON.
type DecideWith func(ctx context.Context, index *Index) (*Operation, any, error)

// Change carries out the operation that decide returns, as Update of a Store does, and decodes its result into the
// given value: for a cause under which the operation was carried out before, the first result. A change without an
// operation is not remembered. The errors are those of Update and of decide.
func Change(ctx context.Context, store Store, scope Scope, cause Cause, into any, decide DecideWith) error {
	var last []byte
	outcome, err := store.Update(ctx, scope, cause, func(ctx context.Context, x *Index) (*Operation, error) {
		o, result, err := decide(ctx, x)
		if err != nil {
			return nil, err
		}
		if last, err = json.Marshal(result); err != nil {
			return nil, fmt.Errorf("encoding the result of a change: %w", err)
		}
		if o != nil {
			o.Result = last
		}
		return o, nil
	})
	if err != nil {
		return err
	}
	if outcome.Result != nil {
		last = outcome.Result
	}
	if err := json.Unmarshal(last, into); err != nil {
		return fmt.Errorf("decoding the result of a change: %w", err)
	}
	return nil
}
