package lease

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
	"github.com/capstan-dev/capstan/internal/runtime/lease"
)

// setConditions sets the conditions that follow from the rest of a status.
func setConditions(l *v1alpha1.LeasedResource, now time.Time) {
	s, at := &l.Status, metav1.NewTime(now)
	s.ObservedGeneration = l.Generation
	set := func(kind string, status metav1.ConditionStatus, reason, message string) {
		condition.Set(&s.Conditions, l.Generation, at, kind, status, reason, message)
	}
	meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionReconciling)
	reason, message := v1alpha1.ReasonCleaning, "The resource is being cleaned up."
	switch s.State {
	case v1alpha1.LeaseStateCleaning:
		set(v1alpha1.ConditionReady, metav1.ConditionFalse, reason, message)
		set(v1alpha1.ConditionReconciling, metav1.ConditionTrue, reason, message)
	case v1alpha1.LeaseStateCleanupFailed:
		reason = v1alpha1.ReasonCleanupFailed
		message = fmt.Sprintf("The resource could not be cleaned up, %d times in a row: %s The clean-up is repeated. "+
			"If it cannot succeed, clean the resource up by hand and set desiredState to Abandoned.",
			s.CleanupFailures, s.LastError)
		set(v1alpha1.ConditionReady, metav1.ConditionFalse, reason, message)
		if s.CleanupFailures < lease.StalledAfter {
			set(v1alpha1.ConditionReconciling, metav1.ConditionTrue, reason, message)
		}
	case v1alpha1.LeaseStateReleased:
		reason, message = v1alpha1.ReasonReleased, "The resource was cleaned up."
		ready := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady)
		if ready != nil && ready.Reason == reason {
			message = ready.Message // It may have the response that counts as success.
		}
		set(v1alpha1.ConditionReady, metav1.ConditionTrue, reason, message)
	case v1alpha1.LeaseStateAbandoned:
		reason, message = v1alpha1.ReasonAbandoned, "The resource was not cleaned up by the manager."
		set(v1alpha1.ConditionReady, metav1.ConditionTrue, reason, message)
	default:
		reason, message = v1alpha1.ReasonReady, "The resource is cleaned up when the lease expires."
		set(v1alpha1.ConditionReady, metav1.ConditionTrue, reason, message)
	}
	stalled := s.State == v1alpha1.LeaseStateCleanupFailed && s.CleanupFailures >= lease.StalledAfter
	condition.SetStalled(&s.Conditions, l.Generation, at, stalled, reason, message)
}
