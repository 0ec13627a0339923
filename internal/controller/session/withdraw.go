package session

import (
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/step"
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobspec"
)

// withdraw withdraws calls of a deleted Turn by deleting their pods while those still have the scheduling gate. The
// deletion requires the resource version that had the gate: if a process removes the gate at the same time, it fails,
// and the API server binds no pod that is being deleted. A later pod of the Job stays gated, because no status is left
// to record it in. If there is no pod, one may have started and be gone.
func (r *Reconciler) withdraw(namespace string) step.Withdrawer {
	return func(ctx context.Context, turn v1alpha1.JournalTurn, step int32, call v1alpha1.ToolCall) (bool, error) {
		if call.Executor == v1alpha1.ToolExecutorAgent {
			// The Turn of a sub-agent may have begun. Its reconciler ends it.
			return false, nil
		}
		var pods corev1.PodList
		err := r.Live.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{
			v1alpha1.LabelTurnUID: string(turn.UID), v1alpha1.LabelStep: strconv.Itoa(int(step)), v1alpha1.LabelCall: call.ID,
		})
		if err != nil {
			return false, fmt.Errorf("listing the pods of call %s: %w", call.ID, err)
		}
		for i := range pods.Items {
			if !jobspec.Gated(&pods.Items[i]) {
				return false, nil
			}
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			err := r.Client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion})
			if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
				return false, nil
			}
			if err != nil {
				return false, fmt.Errorf("deleting the gated pod %s: %w", pod.Name, err)
			}
		}
		return len(pods.Items) > 0, nil
	}
}
