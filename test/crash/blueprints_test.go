package crash_test

import (
	"context"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// cashier is a Capability with a blueprint that may call the Tool pay alone.
func cashier() *v1alpha1.Capability {
	return &v1alpha1.Capability{
		ObjectMeta: metav1.ObjectMeta{Name: "shop"},
		Spec: v1alpha1.CapabilitySpec{Blueprints: []v1alpha1.Blueprint{{
			Name: "cashier", Description: "Pays.", SystemPrompt: "Pay.", Tools: []v1alpha1.LocalReference{{Name: "pay"}},
		}}},
	}
}

// isCashier makes a Session the blueprint.
func isCashier(s *v1alpha1.SessionSpec) {
	s.Blueprint = &v1alpha1.BlueprintReference{Capability: "shop", Name: "cashier"}
}

// cashierTool is a Tool whose sub-agent is the blueprint.
func cashierTool() *v1alpha1.Tool {
	tool := builder.AgentTool("cashier", "").Obj()
	tool.Spec.Agent.Blueprint = &v1alpha1.AgentBlueprint{Capability: "shop", Name: "cashier"}
	return tool
}

// modelled are conversations of Sessions that are a blueprint of a Capability (BP-02, BP-04).
var blueprints = []scenario{
	{
		name:       "a blueprint with an AtMostOnce Job",
		simulation: builder.Script("It is {{tool:pay}}.", builder.Calls("pay"), builder.Calls("pay")),
		tools:      given(builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj()),
		bundles:    func() []*v1alpha1.Capability { return []*v1alpha1.Capability{cashier()} },
		session:    isCashier,
	},
	{
		// The model of the sub-agent makes the same calls: the blueprint has no Tool cashier.
		name:       "a sub-agent that is a blueprint, beside an AtMostOnce Job",
		simulation: builder.Script("It is {{tool:pay}}.", builder.Calls("cashier", "pay")),
		tools:      given(cashierTool(), builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj()),
		bundles:    func() []*v1alpha1.Capability { return []*v1alpha1.Capability{cashier()} },
	},
	{
		name:       "its blueprint is removed and added again",
		simulation: builder.Script("It is {{tool:pay}}.", builder.Calls("pay"), builder.Calls("pay")),
		tools:      given(builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj()),
		bundles:    func() []*v1alpha1.Capability { return []*v1alpha1.Capability{cashier()} },
		session:    isCashier,
		tool:       blockFirst,
		ripe:       isRunning,
		act:        replaceBlueprint,
		varies:     true,
	},
}

// replaceBlueprint removes the blueprint from its Capability while the call runs, and adds it again, so that a Turn
// that has not begun can.
func replaceBlueprint(ctx context.Context, r *run) error {
	all, err := json.Marshal(map[string]any{"spec": cashier().Spec})
	if err != nil {
		return err
	}
	for _, patch := range [][]byte{[]byte(`{"spec":{"blueprints":null}}`), all} {
		if err := r.user.Patch(ctx, inNamespace(r, cashier()), client.RawPatch(types.MergePatchType, patch)); err != nil {
			return err
		}
	}
	return nil
}
