package turn

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/policies"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// awaitPolicies holds back a model call that needs a Secret while an admission policy of the installation is missing,
// and reports it on the Turn. The Turn is woken when all are in force again.
func (r *Reconciler) awaitPolicies(ctx context.Context, s *scope, c turnstate.Config) (flow, error) {
	var missing error
	if needsSecret(c) {
		missing = r.Policies.Await(s.key())
	}
	shown := meta.FindStatusCondition(s.turn.Status.Conditions, v1alpha1.ConditionSucceeded)
	waited := shown != nil && shown.Reason == v1alpha1.ReasonPoliciesNotInForce
	now := metav1.NewTime(r.Clock())
	var why *policies.NotInForceError
	switch {
	case missing == nil && !waited:
		return proceed, nil
	case missing == nil:
		turnstate.SetConditions(&s.turn.Status, s.turn.Generation, now)
		return writeThenRepeat(writeWaiting), nil
	}
	if flow, err := r.findClosedOrStop(ctx, s); err != nil || flow == again {
		return flow, err
	}
	if !errors.As(missing, &why) || waited && shown.Message == waitingFor(why) {
		return stop, nil
	}
	for _, kind := range []struct {
		name  string
		value metav1.ConditionStatus
	}{{v1alpha1.ConditionSucceeded, metav1.ConditionUnknown}, {v1alpha1.ConditionReconciling, metav1.ConditionTrue}} {
		condition.Set(&s.turn.Status.Conditions, s.turn.Generation, now, kind.name, kind.value,
			v1alpha1.ReasonPoliciesNotInForce, waitingFor(why))
	}
	return writeThenStop(writeWaiting), nil
}

func waitingFor(why *policies.NotInForceError) string {
	return "The Turn needs a Secret and is waiting: " + why.Error() + "."
}

// needsSecret reports whether a model call uses something that admission asks the author of a Model about.
func needsSecret(c turnstate.Config) bool {
	return c.Model != nil && model.Lent(c.Model) || slices.ContainsFunc(c.Fallbacks, model.Lent)
}

// callAwaitsPolicies holds back a tool call that uses a Secret or a ServiceAccount while an admission policy of the
// installation is missing.
func (r *Reconciler) callAwaitsPolicies(a *actScope, index int) bool {
	call := &a.turn.Status.ToolCalls[index]
	if !Lent(a.config.Tools.Planned(*call)) || r.Policies.Await(a.key()) == nil {
		if call.Reason == v1alpha1.ReasonPoliciesNotInForce {
			call.Reason = ""
		}
		return false
	}
	call.Reason = v1alpha1.ReasonPoliciesNotInForce
	return true
}

// Lent reports whether a tool uses a Secret, a ServiceAccount, a Service or certificates of the namespace, or secrets
// of the Session, which are in a Secret.
func Lent(planned *definition.Definition) bool {
	if len(planned.SecretArguments()) > 0 || len(planned.SecretHeaders()) > 0 {
		return true
	}
	if remote := planned.Remote(); remote != nil {
		spec := &remote.Server.Spec
		return sent(spec.Headers) || spec.ServiceRef != nil || spec.CABundle != nil
	}
	spec := planned.Spec()
	if spec == nil {
		return false
	}
	if job := spec.Job; job != nil {
		for _, variable := range job.Env {
			if variable.SecretKeyRef != nil {
				return true
			}
		}
		return job.ServiceAccountName != "" || len(job.ImagePullSecrets) > 0
	}
	return spec.HTTP != nil &&
		(sent(spec.HTTP.Headers) || spec.HTTP.ServiceRef != nil || spec.HTTP.CABundle != nil)
}

// sent reports whether the value of a header is secret.
func sent(headers []v1alpha1.HTTPHeader) bool {
	return slices.ContainsFunc(headers, v1alpha1.HTTPHeader.IsSecret)
}
