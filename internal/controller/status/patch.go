// Package status writes the status of an object: only the changed fields, and only if there was no other write in
// between.
package status

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Patch writes the status of next, where it differs from that of base, as a merge patch of the status alone. The
// resourceVersion of base is the optimistic lock: after any other write the patch fails with a Conflict, and nothing is
// written. Equal statuses cost no call. After a write, next is the server's response; after an error it is unchanged.
// Lists are replaced as a whole.
//
// base and next are pointers to the same kind of typed object.
func Patch(ctx context.Context, c client.Client, base, next client.Object) (changed bool, err error) {
	patch, err := statusPatch(base, next)
	if err != nil {
		return false, fmt.Errorf("comparing the status of %T %s: %w", next, client.ObjectKeyFromObject(next), err)
	}
	if patch == nil {
		return false, nil
	}
	// The response is decoded into a new object: decoding into next would keep fields that the response lacks.
	answer, ok := reflect.New(reflect.TypeOf(next).Elem()).Interface().(client.Object)
	if !ok {
		return false, fmt.Errorf("%T is not a pointer to an API object", next)
	}
	answer.SetNamespace(next.GetNamespace())
	answer.SetName(next.GetName())
	if err := c.Status().Patch(ctx, answer, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return false, fmt.Errorf("patching the status of %T %s: %w", next, client.ObjectKeyFromObject(next), err)
	}
	reflect.ValueOf(next).Elem().Set(reflect.ValueOf(answer).Elem())
	return true, nil
}

// statusPatch returns the merge patch from the status of base to that of next, with the lock; nil if they are equal.
func statusPatch(base, next client.Object) ([]byte, error) {
	from, err := statusOf(base)
	if err != nil {
		return nil, err
	}
	to, err := statusOf(next)
	if err != nil {
		return nil, err
	}
	difference, err := jsonpatch.CreateMergePatch(from, to)
	if err != nil {
		return nil, fmt.Errorf("creating the merge patch: %w", err)
	}
	if string(difference) == "{}" {
		return nil, nil
	}
	if base.GetResourceVersion() == "" {
		return nil, fmt.Errorf("the object has no resourceVersion: it was not read from the API server")
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]string{"resourceVersion": base.GetResourceVersion()},
		"status":   json.RawMessage(difference),
	})
}

// statusOf is the status of an object as JSON; an empty object without one.
func statusOf(o client.Object) ([]byte, error) {
	raw, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", o, err)
	}
	var parts struct {
		Status json.RawMessage `json:"status"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return nil, fmt.Errorf("reading the status of %T: %w", o, err)
	}
	if len(parts.Status) == 0 {
		return []byte("{}"), nil
	}
	return parts.Status, nil
}

// staleRetry is the pause before a pass that had a conflict is repeated.
const staleRetry = 100 * time.Millisecond

// Write ends the pass of a simple reconciler: it writes the status with Patch. After a conflict the pass is repeated
// shortly, because the cache was stale; a deleted object needs no write.
func Write(ctx context.Context, c client.Client, base, next client.Object) (ctrl.Result, error) {
	_, err := Patch(ctx, c, base, next)
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return ctrl.Result{}, nil
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: staleRetry}, nil
	default:
		return ctrl.Result{}, err
	}
}
