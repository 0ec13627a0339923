package session

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/stores"
)

// hasStore gives a new Session the store that new ones have, which its first status write records under lock: until
// then nothing is written to its journal. It reports whether this manager has the store of the Session; without it the
// Session is not ready, and nothing runs.
func (r *Reconciler) hasStore(s *scope) bool {
	if r.Stores == nil {
		return true
	}
	r.Stores.Observe(s.base)
	if stores.Of(s.session) == "" {
		s.session.Status.Store = r.NewStore
	}
	store := stores.Of(s.session)
	if r.Stores.Has(store) {
		return true
	}
	s.usable, s.reason = false, v1alpha1.ReasonStoreUnavailable
	s.message = fmt.Sprintf("The journal of the Session is in the store %s, which this manager is not configured for. "+
		"Configure the manager for it, or continue in a new Session.", store)
	setReady(s.session, s.reason, s.message, metav1.NewTime(r.Clock()))
	return false
}

// dropStore has the rows of a Session that is gone deleted, if it had any.
func (r *Reconciler) dropStore(key types.NamespacedName, uid types.UID) {
	if r.Stores != nil && r.Stores.Forget(uid) == v1alpha1.SessionStorePostgres && r.Gone != nil {
		r.Gone(key, uid)
	}
}
