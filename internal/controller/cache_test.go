package controller

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

func TestAFinishedTurnIsKeptWithoutItsBulk(t *testing.T) {
	full := func(finished metav1.ConditionStatus) *v1alpha1.Turn {
		turn := &v1alpha1.Turn{ObjectMeta: metav1.ObjectMeta{Name: "demo-1", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}}}
		turn.Spec.SessionRef.Name, turn.Spec.Input = "demo", "Hello"
		turn.Spec.Message = &v1alpha1.TurnMessage{Content: []v1alpha1.MessagePart{{Image: &v1alpha1.MessageImage{Data: "AAAA"}}}}
		turn.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionFinished, Status: finished}}
		turn.Status.Output, turn.Status.ToolCalls = "Hello.", []v1alpha1.ToolCall{{ID: "1-0", Preview: "done"}}
		return turn
	}
	running, finished := full(metav1.ConditionFalse), full(metav1.ConditionTrue)
	running.ManagedFields, finished.ManagedFields = nil, nil
	finished.Spec.Input, finished.Spec.Message, finished.Status.Output, finished.Status.ToolCalls[0].Preview = "", nil, "", ""
	for status, want := range map[metav1.ConditionStatus]*v1alpha1.Turn{metav1.ConditionFalse: running, metav1.ConditionTrue: finished} {
		if got, err := stripFinishedTurn(full(status)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("finished %s: kept\n%+v, %v\nwant\n%+v", status, got, err, want)
		}
	}
}
