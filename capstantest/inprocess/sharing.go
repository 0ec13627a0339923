package inprocess

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/memory"
)

var _ memory.Host = sessions{}

// sessions reads the Sessions that share their memory.
type sessions struct{ objects *objects }

// Session implements memory.Host.
func (s sessions) Session(_ context.Context, _, name string) (*v1alpha1.Session, error) {
	s.objects.mu.Lock()
	defer s.objects.mu.Unlock()
	key := keyOf(&v1alpha1.Session{ObjectMeta: metav1.ObjectMeta{Name: name}})
	session, ok := s.objects.byKey[key].(*v1alpha1.Session)
	if !ok {
		return nil, nil
	}
	return session.DeepCopy(), nil
}
