package crash_test

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// withLedger are Capabilities with the Tool pay, of which one needs the other.
func withLedger() []*v1alpha1.Capability {
	return []*v1alpha1.Capability{
		{
			ObjectMeta: metav1.ObjectMeta{Name: "payments"},
			Spec:       v1alpha1.CapabilitySpec{Dependencies: []v1alpha1.CapabilityDependency{{Name: "ledger"}}},
		},
		ledger(),
	}
}

func ledger() *v1alpha1.Capability {
	return &v1alpha1.Capability{
		ObjectMeta: metav1.ObjectMeta{Name: "ledger"},
		Spec:       v1alpha1.CapabilitySpec{Tools: []v1alpha1.LocalReference{{Name: "pay"}}},
	}
}

// bundled are conversations of a Session with Capabilities, one of which goes away while an AtMostOnce call runs, and
// comes back, so that a Turn that has not begun can.
var bundled = []scenario{
	bundle("its Capability is replaced", func(ctx context.Context, r *run) error {
		if err := r.user.Delete(ctx, inNamespace(r, ledger())); err != nil {
			return err
		}
		return r.user.Create(ctx, inNamespace(r, ledger()))
	}),
	bundle("its Capability is archived and activated", func(ctx context.Context, r *run) error {
		for _, lifecycle := range []string{"Archived", "Active"} {
			patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"lifecycle":"`+lifecycle+`"}}`))
			if err := r.user.Patch(ctx, inNamespace(r, ledger()), patch); err != nil {
				return err
			}
		}
		return nil
	}),
}

func bundle(name string, act func(context.Context, *run) error) scenario {
	return scenario{
		name:       name,
		simulation: builder.Script("It is {{tool:pay}}.", builder.Calls("pay"), builder.Calls("pay")),
		tools:      given(builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj()),
		bundles:    withLedger,
		session: func(s *v1alpha1.SessionSpec) {
			s.Capabilities = []v1alpha1.CapabilityReference{{Name: "payments"}}
		},
		tool:   blockFirst,
		ripe:   isRunning,
		act:    act,
		varies: true,
	}
}

func inNamespace(r *run, o *v1alpha1.Capability) *v1alpha1.Capability {
	o.Namespace = r.namespace
	return o
}
