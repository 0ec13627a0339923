package turn

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobspec"
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobstatus"
)

// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=list;create

// CutOff ensures, before a Job with `network: None` is created, that NetworkPolicies deny all traffic of its pod. It
// returns the outcome of a call that must not start, and whether the Job may be created now. NetworkPolicies are read
// live and not cached: few calls need them, and stale policies are not good enough.
func CutOff(
	ctx context.Context, c client.Client, live client.Reader, job *batchv1.Job,
) (*tool.Outcome, bool, error) {
	if job.Spec.Template.Labels[v1alpha1.LabelNetwork] != string(v1alpha1.NetworkReachNone) {
		return nil, true, nil
	}
	var policies networkingv1.NetworkPolicyList
	if err := live.List(ctx, &policies, client.InNamespace(job.Namespace)); err != nil {
		return nil, false, fmt.Errorf("listing NetworkPolicies for a tool without network access: %w", err)
	}
	why, missing := jobspec.Opening(policies.Items, job)
	if why != "" {
		return networkOpen(why), false, nil
	}
	if !missing {
		return nil, true, nil
	}
	err := c.Create(ctx, jobspec.NetworkPolicyNone(job.Namespace))
	switch {
	case err == nil:
		return nil, true, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil, false, nil
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		refused := jobstatus.Refused("its NetworkPolicy was not accepted: " + err.Error())
		return &refused, false, nil
	default:
		// If two processes create it at once, one gets AlreadyExists: the next pass reads the existing policy.
		return nil, false, fmt.Errorf("creating the NetworkPolicy for tools without network access: %w", err)
	}
}

// networkOpen is the outcome of a call whose pod would have network access.
func networkOpen(why string) *tool.Outcome {
	return &tool.Outcome{
		State:  v1alpha1.ToolCallStateNotExecuted,
		Reason: v1alpha1.ToolCallReasonNetworkOpen,
		Error:  fmt.Sprintf("The tool was not executed, because its pod would have network access: %s.", why),
	}
}
