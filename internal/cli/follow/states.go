package follow

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/backoff"
)

// The pauses after an error that may pass.
const (
	firstPause = 200 * time.Millisecond
	lastPause  = 5 * time.Second
)

// errDeleted reports that the Turn was deleted.
var errDeleted = errors.New("it was deleted")

// states returns the states of the Turn of a name, beginning with the present one, or, without a name, the changes of
// all Turns of a namespace from now on. It connects again after an interruption. Without a name it returns nil whenever
// it has connected: changes before that were not seen.
func (f *Follower) states(ctx context.Context, namespace, name string) iter.Seq2[*v1alpha1.Turn, error] {
	return func(yield func(*v1alpha1.Turn, error) bool) {
		pause := firstPause
		for ctx.Err() == nil {
			more, err := f.watch(ctx, namespace, name, func(turn *v1alpha1.Turn) bool {
				pause = firstPause
				return yield(turn, nil)
			})
			if !more && err == nil {
				return
			}
			if ctx.Err() != nil {
				break
			}
			if err != nil && !transient(err) {
				yield(nil, err)
				return
			}
			if err != nil && pause == firstPause {
				f.Note(fmt.Sprintf("the API server cannot be reached (%v); trying again", err))
			}
			if backoff.Wait(ctx, pause) != nil {
				break
			}
			pause = min(2*pause, lastPause)
		}
		if err := ctx.Err(); err != nil {
			yield(nil, err)
		}
	}
}

// watch passes on states until the connection ends. It reports whether there is to be more.
func (f *Follower) watch(
	ctx context.Context, namespace, name string, yield func(*v1alpha1.Turn) bool,
) (more bool, err error) {
	options := &client.ListOptions{Namespace: namespace, Raw: &metav1.ListOptions{}}
	if name != "" {
		options.FieldSelector = fields.OneTermEqualSelector("metadata.name", name)
	} else {
		options.Limit = 1
	}
	var list v1alpha1.TurnList
	if err := f.Client.List(ctx, &list, options); err != nil {
		return true, fmt.Errorf("reading Turns: %w", err)
	}
	var present *v1alpha1.Turn
	if name != "" {
		if len(list.Items) == 0 {
			return false, fmt.Errorf("following Turn %s: %w", name, errDeleted)
		}
		present = &list.Items[0]
	}
	if !yield(present) {
		return false, nil
	}
	options.Limit = 0
	options.Raw.ResourceVersion = list.ResourceVersion
	watcher, err := f.Client.Watch(ctx, &v1alpha1.TurnList{}, options)
	if err != nil {
		return true, fmt.Errorf("watching Turns: %w", err)
	}
	defer watcher.Stop()
	for e := range watcher.ResultChan() {
		turn, ok := e.Object.(*v1alpha1.Turn)
		switch {
		case e.Type == watch.Error:
			return true, nil // an expired version, for example: the list comes again
		case !ok || e.Type == watch.Bookmark:
		case e.Type == watch.Deleted && name != "":
			return false, fmt.Errorf("following Turn %s: %w", name, errDeleted)
		case e.Type == watch.Deleted:
		case !yield(turn):
			return false, nil
		}
	}
	return true, nil
}

// transient reports whether an error may pass by itself.
func transient(err error) bool {
	if errors.Is(err, errDeleted) {
		return false
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true // no response at all
	}
	return apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err) || apierrors.IsResourceExpired(err)
}
