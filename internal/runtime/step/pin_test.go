package step

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/tool/builtin"
)

func TestACallOfAnHTTPToolIsPinned(t *testing.T) {
	b := newBench(t)
	definition := jobTool("ask")
	definition.Spec.Job, definition.Spec.HTTP = nil, &v1alpha1.HTTPTool{URL: "https://example.org"}
	definition.Spec.HTTP.Timeout = &metav1.Duration{Duration: 7}
	b.responds("", calls(1, "ask")...)
	turn, _ := b.reason(newTurn("demo-1"), with(definition))
	c := turn.Progress.ToolCalls[0]
	if c.Executor != v1alpha1.ToolExecutorHTTP || c.SideEffect != v1alpha1.SideEffectAtMostOnce || c.Attempt != 1 ||
		c.Timeout.Duration != 7 ||
		len(c.ToolDigest) != 40 ||
		c.State != v1alpha1.ToolCallStatePending {
		t.Errorf("the call is pinned as %+v", c)
	}
}

func TestACallOfABuiltinToolIsPinnedToIt(t *testing.T) {
	b := newBench(t)
	c := with()
	c.Tools = builtin.Definitions("current_time")
	b.responds("", model.ToolCall{Name: "get_current_time", Arguments: `{}`},
		model.ToolCall{Name: "get_current_time", Arguments: `{"format": "roman"}`})
	turn, _ := b.reason(newTurn("demo-1"), c)
	if asked := b.asked[0].Tools; len(asked) != 1 || asked[0].Name != "get_current_time" || asked[0].Description == "" {
		t.Errorf("the model is offered %+v", asked)
	}
	calls := turn.Progress.ToolCalls
	if call := calls[0]; call.Executor != v1alpha1.ToolExecutorBuiltin || call.SideEffect != v1alpha1.SideEffectPure ||
		call.ToolUID != "" || call.ToolDigest != c.Tools[0].Digest() || call.Attempt != 1 ||
		call.State != v1alpha1.ToolCallStatePending || c.Tools.Planned(call) == nil {
		t.Errorf("the call is planned as %+v", call)
	}
	if call := calls[1]; call.State != v1alpha1.ToolCallStateNotExecuted ||
		call.Reason != v1alpha1.ToolCallReasonInvalidArguments {
		t.Errorf("the call with wrong arguments is planned as %+v", call)
	}
}
