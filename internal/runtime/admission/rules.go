package admission

import (
	"errors"
	"fmt"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// maxNameLength is the longest name of a Tool or a Turn.
const maxNameLength = 63

// checkRules holds an object against those rules of its definition that are in CEL and that the runtime relies on: what a Tool is run by, what a
// Turn says, and what a ToolResult gives.
func checkRules(o Object) error {
	switch o := o.(type) {
	case *v1alpha1.Tool:
		return checkTool(o)
	case *v1alpha1.Turn:
		return checkTurn(o)
	case *v1alpha1.ToolResult:
		return checkToolResult(&o.Spec)
	default:
		return nil
	}
}

func checkTool(tool *v1alpha1.Tool) error {
	spec := &tool.Spec
	switch {
	case len(tool.Name) > maxNameLength || strings.Contains(tool.Name, "."):
		return errors.New("the name of a Tool is what the model calls it by: at most 63 characters, no dots")
	case count(spec.Job != nil, spec.HTTP != nil, spec.Client != nil) != 1:
		return errors.New("spec: exactly one of job, http and client must be set")
	case spec.Client != nil && spec.Policy != "":
		return errors.New("spec: policy is for tools that the manager runs; the client of a client tool decides by itself")
	case spec.Client != nil && (spec.SideEffect != "" || spec.ConcurrencyClass != ""):
		return errors.New("spec: sideEffect and concurrencyClass are for tools that the manager runs; a client tool is run by its client")
	case spec.ApprovalTimeout != nil && spec.Policy != v1alpha1.PolicyRequiresApproval:
		return errors.New("spec: approvalTimeout is for tools with the policy RequiresApproval")
	default:
		return nil
	}
}

func checkTurn(turn *v1alpha1.Turn) error {
	switch {
	case len(turn.Name) > maxNameLength:
		return errors.New("the name of a Turn has at most 63 characters")
	case count(turn.Spec.Input != "", turn.Spec.Message != nil) != 1:
		return errors.New("spec: exactly one of input, for text, and message, for text and images, must be set")
	case turn.Spec.Message == nil:
		return nil
	}
	for i, part := range turn.Spec.Message.Content {
		if part.Image != nil && count(part.Image.Data != "", part.Image.URL != "") != 1 {
			return fmt.Errorf("spec.message.content[%d].image: exactly one of data and url must be set", i)
		}
	}
	return nil
}

func checkToolResult(spec *v1alpha1.ToolResultSpec) error {
	switch {
	case count(spec.Result != nil, spec.Error != nil, spec.Decision != "") != 1:
		return errors.New("spec: exactly one of result, error and decision must be set")
	case spec.Decision != "" && spec.SubmittedBy == "":
		return errors.New("spec: a decision needs submittedBy")
	default:
		return nil
	}
}

func count(set ...bool) int {
	n := 0
	for _, one := range set {
		if one {
			n++
		}
	}
	return n
}
