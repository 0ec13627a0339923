package turn

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/configsource"
	"github.com/capstan-dev/capstan/internal/controller/fieldindex"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// config reads the Turn's configuration, again at every phase.
func (r *Reconciler) config(ctx context.Context, s *scope) (turnstate.Config, error) {
	resolved, err := configsource.Session(ctx, r.Client, s.session)
	if err != nil {
		return turnstate.Config{}, err
	}
	c := turnstate.ConfigOf(resolved, turnstate.ControlsOf(s.turn))
	c.Texts = r.Texts.Of(resolved, s.session)
	return c, nil
}

// everyStep selects all steps of a Turn.
const everyStep = 0

// ofTurn selects the objects of the Turn by index, without a scan of the namespace.
func ofTurn(turn *v1alpha1.Turn) client.MatchingFields {
	return client.MatchingFields{fieldindex.TurnUID: string(turn.UID)}
}

// ofStep selects the objects of one step of the Turn, or of every step, by label. A long Turn leaves many Jobs behind:
// those of closed steps are irrelevant for the open one, and reading them in each pass would make the Turn slower with
// every step.
func ofStep(turn *v1alpha1.Turn, step int32) client.MatchingLabels {
	labels := client.MatchingLabels{v1alpha1.LabelTurnUID: string(turn.UID)}
	if step != everyStep {
		labels[v1alpha1.LabelStep] = strconv.Itoa(int(step))
	}
	return labels
}

// jobs returns the Jobs of a step by name.
func (r *Reconciler) jobs(ctx context.Context, turn *v1alpha1.Turn, step int32) (map[string]*batchv1.Job, error) {
	var list batchv1.JobList
	if err := r.Client.List(ctx, &list, client.InNamespace(turn.Namespace), ofTurn(turn), ofStep(turn, step)); err != nil {
		return nil, fmt.Errorf("listing the Turn's Jobs: %w", err)
	}
	jobs := make(map[string]*batchv1.Job, len(list.Items))
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], turn) {
			jobs[list.Items[i].Name] = &list.Items[i]
		}
	}
	return jobs, nil
}

// pods returns the pods of a step that the cache has, by the UID of the Job that controls them, the oldest first.
func (r *Reconciler) pods(ctx context.Context, turn *v1alpha1.Turn, step int32) (map[string][]*corev1.Pod, error) {
	return listPods(ctx, r.Client, turn, ofTurn(turn), ofStep(turn, step))
}

// livePods returns the pods of a step as pods does, past the cache.
func (r *Reconciler) livePods(ctx context.Context, turn *v1alpha1.Turn, step int32) (map[string][]*corev1.Pod, error) {
	return listPods(ctx, r.Live, turn, ofStep(turn, step))
}

func listPods(
	ctx context.Context, reader client.Reader, turn *v1alpha1.Turn, which ...client.ListOption,
) (map[string][]*corev1.Pod, error) {
	var list corev1.PodList
	if err := reader.List(ctx, &list, append(which, client.InNamespace(turn.Namespace))...); err != nil {
		return nil, fmt.Errorf("listing the Turn's pods: %w", err)
	}
	pods := map[string][]*corev1.Pod{}
	for i := range list.Items {
		if owner := metav1.GetControllerOf(&list.Items[i]); owner != nil {
			pods[string(owner.UID)] = append(pods[string(owner.UID)], &list.Items[i])
		}
	}
	for _, of := range pods {
		slices.SortFunc(of, func(a, b *corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	}
	return pods, nil
}

// results returns the ToolResults for exactly this Turn, in the order of their creation.
func (r *Reconciler) results(ctx context.Context, turn *v1alpha1.Turn) ([]v1alpha1.ToolResult, error) {
	var list v1alpha1.ToolResultList
	if err := r.Client.List(
		ctx,
		&list,
		client.InNamespace(turn.Namespace),
		client.MatchingFields{fieldindex.TurnName: turn.Name},
	); err != nil {
		return nil, fmt.Errorf("listing the ToolResults for the Turn: %w", err)
	}
	meant := slices.DeleteFunc(list.Items, func(t v1alpha1.ToolResult) bool {
		return t.Spec.TurnRef.UID != "" && t.Spec.TurnRef.UID != turn.UID
	})
	slices.SortFunc(meant, func(a, b v1alpha1.ToolResult) int {
		if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return meant, nil
}

// turnsOf lists the Turns of a Session, all of them by fieldindex.SessionName, or those that have not ended by
// fieldindex.OpenTurn.
func (r *Reconciler) turnsOf(
	ctx context.Context, session types.NamespacedName, index string,
) ([]*v1alpha1.Turn, error) {
	var list v1alpha1.TurnList
	if err := r.Client.List(ctx, &list, client.InNamespace(session.Namespace),
		client.MatchingFields{index: session.Name}); err != nil {
		return nil, fmt.Errorf("listing the Turns of Session %s: %w", session.Name, err)
	}
	turns := make([]*v1alpha1.Turn, len(list.Items))
	for i := range list.Items {
		turns[i] = &list.Items[i]
	}
	return turns, nil
}

// planned reads the large fields of the calls of the open act step: they do not fit into status and are in the entry
// just before the step. They are not kept in memory while the Turn waits.
func (r *Reconciler) planned(ctx context.Context, s *scope) error {
	step := s.memory.of(s.plan().Step)
	if step.known.Planned != nil {
		return nil
	}
	reason, err := r.Steps.Log.Step(ctx, s.journal(), s.turn.UID, s.plan().OpenedAtOrdinal-1)
	if err != nil {
		return fmt.Errorf("reading the journal entry of the planned calls: %w", err)
	}
	step.known.Planned = reason.Calls
	return nil
}

// known returns everything known about the calls of the open step, for the entry that closes it.
func (r *Reconciler) known(ctx context.Context, s *scope) (*act.Step, error) {
	step := s.memory.of(s.plan().Step)
	if s.plan().Phase == v1alpha1.PlanPhaseAct {
		if err := r.planned(ctx, s); err != nil {
			return nil, err
		}
	}
	return step.known, nil
}
