package turn

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// An API server answers a patch with a conflict when others keep changing the pod, and calls it invalid when it would
// bring a gate back that another controller has removed meanwhile.
func TestAGateThatCouldNotBeOpenedIsOpenedLater(t *testing.T) {
	pods, kind := schema.GroupResource{Resource: "pods"}, schema.GroupKind{Kind: "Pod"}
	for name, refusal := range map[string]error{
		"conflict": apierrors.NewConflict(pods, "tool", errors.New("the object has been modified")),
		"invalid":  apierrors.NewInvalid(kind, "tool", nil),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.begin(builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj())
			refused := 0
			w.hooks.Patch = func(
				ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, o ...client.PatchOption,
			) error {
				if _, isPod := object.(*corev1.Pod); isPod && refused < 2 {
					refused++
					return refusal
				}
				return c.Patch(ctx, object, patch, o...)
			}
			w.manager(0).until("the end of the call", w.shows("pay", v1alpha1.ToolCallStateSucceeded))
			if refused != 2 || w.starts("pay") != 1 {
				t.Errorf("the gate was refused %d times, and the call started %d times", refused, w.starts("pay"))
			}
		})
	}
}

// A pod that is gone has no gate to open.
func TestAGateOfAPodThatIsGoneIsNotTriedAgain(t *testing.T) {
	w := newWorld(t)
	patches := 0
	w.hooks.Patch = func(
		ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, o ...client.PatchOption,
	) error {
		if _, isPod := object.(*corev1.Pod); isPod {
			patches++
			return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, object.GetName())
		}
		return c.Patch(ctx, object, patch, o...)
	}
	w.begin(builder.JobTool("look", v1alpha1.SideEffectAtMostOnce).Obj())
	m := w.manager(0)
	m.until("the first patch", func() bool { return patches > 0 })
	for range 5 {
		if _, err := m.pass(); err != nil {
			t.Fatal(err)
		}
		w.sleep(time.Second)
	}
	if patches != 1 {
		t.Errorf("%d patches, want 1", patches)
	}
}
