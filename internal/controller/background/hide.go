package background

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/background"
)

// hidden has the tasks that the status of their Session is to show no longer. The reconciler of Sessions writes that,
// with what else it has to write: the Turn that delivers the end of a task is admitted at the same moment, and of two
// writers one would have to write again. A process that starts finds such tasks by the status.
type hidden struct {
	mu    sync.Mutex
	byKey map[types.NamespacedName]hiddenTasks
}

type hiddenTasks struct {
	session types.UID
	ids     []string
}

// add hides tasks of a Session.
func (h *hidden) add(of background.Session, ids ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byKey == nil {
		h.byKey = map[types.NamespacedName]hiddenTasks{}
	}
	key := types.NamespacedName{Namespace: of.Namespace, Name: of.Name}
	known := h.byKey[key]
	if known.session != of.UID {
		known = hiddenTasks{session: of.UID}
	}
	for _, id := range ids {
		if !slices.Contains(known.ids, id) {
			known.ids = append(known.ids, id)
		}
	}
	h.byKey[key] = known
}

// forget drops what is known of a Session.
func (h *hidden) forget(key types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.byKey, key)
}

// Shown returns the tasks that the status of a Session is to show from now on.
func (r *Reconciler) Shown(session *v1alpha1.Session) []v1alpha1.BackgroundTask {
	return r.hidden.shown(session)
}

func (h *hidden) shown(session *v1alpha1.Session) []v1alpha1.BackgroundTask {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := client.ObjectKeyFromObject(session)
	known, found := h.byKey[key]
	if !found {
		return session.Status.BackgroundTasks
	}
	var left []v1alpha1.BackgroundTask
	still := hiddenTasks{session: session.UID}
	for _, t := range session.Status.BackgroundTasks {
		if known.session == session.UID && slices.Contains(known.ids, t.ID) {
			still.ids = append(still.ids, t.ID)
		} else {
			left = append(left, t)
		}
	}
	if len(still.ids) == 0 {
		delete(h.byKey, key)
	} else {
		h.byKey[key] = still
	}
	return left
}
