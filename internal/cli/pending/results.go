package pending

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Decide returns the decision about a call by a user. It counts for exactly the call that the Turn shows.
func Decide(turn *v1alpha1.Turn, call Call, decision v1alpha1.Decision, user string) *v1alpha1.ToolResult {
	result := forCall(turn, call, user)
	result.Spec.Decision, result.Spec.CallDigest = decision, call.CallDigest
	result.Spec.TurnSubmittedBy = turn.Spec.SubmittedBy
	if decision == v1alpha1.DecisionApprove && turn.Spec.SubmittedBy != "" {
		result.Spec.TurnSteeredBy = slices.Clone(turn.Status.SteeredBy)
	}
	return result
}

// Answer returns the answer to a question of a tool.
func Answer(turn *v1alpha1.Turn, call Call, answer v1alpha1.InputAnswer, user string) *v1alpha1.ToolResult {
	result := forCall(turn, call, user)
	result.Spec.Input, result.Spec.CallDigest = &answer, call.CallDigest
	return result
}

// Result returns the result of a client tool, or its error.
func Result(turn *v1alpha1.Turn, call Call, content, failure *string, user string) *v1alpha1.ToolResult {
	result := forCall(turn, call, user)
	result.Spec.Result, result.Spec.Error = content, failure
	return result
}

func forCall(turn *v1alpha1.Turn, call Call, user string) *v1alpha1.ToolResult {
	return &v1alpha1.ToolResult{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "ToolResult"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace:    turn.Namespace,
			GenerateName: fmt.Sprintf("%s-%s-", turn.Name, call.ID),
		},
		Spec: v1alpha1.ToolResultSpec{
			TurnRef:     v1alpha1.TurnReference{Name: turn.Name, UID: turn.UID},
			CallID:      call.ID,
			SubmittedBy: user,
		},
	}
}

// Question returns a question of a call; the only one for an empty id.
func Question(call Call, id string) (*v1alpha1.ToolInputRequest, error) {
	if call.Input == nil || len(call.Input.Requests) == 0 {
		return nil, fmt.Errorf("call %s shows no question", call.ID)
	}
	requests := call.Input.Requests
	if id == "" && len(requests) == 1 {
		return &requests[0], nil
	}
	ids := make([]string, len(requests))
	for i := range requests {
		if requests[i].ID == id {
			return &requests[i], nil
		}
		ids[i] = requests[i].ID
	}
	return nil, fmt.Errorf("name a question of call %s with --question: %q", call.ID, ids)
}
