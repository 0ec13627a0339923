package schedule

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// refused shows on the Schedule why an object of a tick cannot be created, with the ticks that were started, and
// returns the error, so that it is tried again. Errors that pass by themselves are only returned.
func (r *Reconciler) refused(ctx context.Context, s *scope, cause error) error {
	var taken *takenError
	reason := v1alpha1.ReasonStartFailing
	switch {
	case errors.Is(cause, errGone):
		return errGone
	case errors.As(cause, &taken):
		reason = v1alpha1.ReasonNameTaken
	case !apierrors.IsForbidden(cause) && !apierrors.IsInvalid(cause) && !apierrors.IsBadRequest(cause) &&
		!apierrors.IsRequestEntityTooLargeError(cause):
		return cause
	}
	s.show(reason, "The Turn of a tick cannot be created, and is tried again: "+cause.Error()+
		". Delete what prevents it, or the Schedule.", false)
	if err := r.record(ctx, s); err != nil {
		return err
	}
	return cause
}
