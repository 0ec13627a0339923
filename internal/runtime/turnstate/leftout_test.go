package turnstate

import (
	"context"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// longMessage is a message that is not kept with its Turn.
func longMessage() v1alpha1.TurnSpec {
	image := pixel
	image.Data = strings.Repeat("A", 8<<10)
	return v1alpha1.TurnSpec{
		Message: &v1alpha1.TurnMessage{Content: []v1alpha1.MessagePart{textPart("What is it?"), pictured(image)}},
	}
}

func TestWhichMessagesAreLeftOut(t *testing.T) {
	byURL := pictured(
		v1alpha1.MessageImage{MediaType: v1alpha1.ImageMediaTypePNG, URL: "https://example.org/" + strings.Repeat("a", 2000)},
	)
	for name, test := range map[string]struct {
		spec  v1alpha1.TurnSpec
		bytes int64
		begin string
	}{
		"a short text":          {v1alpha1.TurnSpec{Input: "Hello"}, 0, ""},
		"as long as an excerpt": {v1alpha1.TurnSpec{Input: strings.Repeat("x", 2<<10)}, 0, ""},
		"a longer text": {
			v1alpha1.TurnSpec{Input: strings.Repeat("x", 2<<10+1)}, 2<<10 + 1, strings.Repeat("x", 2<<10+1),
		},
		"a small image": {
			v1alpha1.TurnSpec{Message: &v1alpha1.TurnMessage{Content: []v1alpha1.MessagePart{pictured(pixel)}}}, 0, "",
		},
		"an image": {longMessage(), 8<<10 + 11, "What is it?"},
		"many addresses of images": {
			v1alpha1.TurnSpec{Message: &v1alpha1.TurnMessage{Content: []v1alpha1.MessagePart{byURL, byURL}}}, 4040, "",
		},
		"a size that a user claims": {v1alpha1.TurnSpec{Input: "Hello"}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			turn := &v1alpha1.Turn{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{AnnotationMessageBytes: "7"}},
				Spec:       test.spec,
			}
			whole := *test.spec.DeepCopy()
			LeaveOutMessage(turn)
			if test.bytes == 0 {
				if MessageLeftOut(turn.Spec) || !reflect.DeepEqual(turn.Spec, whole) || len(turn.Annotations) != 0 {
					t.Errorf("kept %+v, %v", turn.Spec, turn.Annotations)
				}
				return
			}
			for range 2 { // A cache passes what it has through again.
				input, content := MessageOf(turn.Spec)
				if !MessageLeftOut(turn.Spec) || input != test.begin || content != nil || leftOutBytes(turn) != test.bytes {
					t.Errorf(
						"kept %d bytes, %d parts of %d bytes; left out: %v",
						len(input),
						len(content),
						leftOutBytes(turn),
						MessageLeftOut(turn.Spec),
					)
				}
				LeaveOutMessage(turn)
			}
		})
	}
}

func TestAMessageIsNeverUsedUnread(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("the beginning of a message passed for the message")
		}
	}()
	read := func(context.Context) (v1alpha1.TurnSpec, error) { return v1alpha1.TurnSpec{}, nil }
	_ = Turn{Input: "the beginning", ReadMessage: read}.Message()
}

func TestWhichResultsAreLeftOut(t *testing.T) {
	short, long := "short", strings.Repeat("x", maxResultBytes+1)
	for name, test := range map[string]struct {
		spec v1alpha1.ToolResultSpec
		out  bool
	}{
		"a short result": {v1alpha1.ToolResultSpec{Result: &short}, false},
		"a short error":  {v1alpha1.ToolResultSpec{Error: &short}, false},
		"a decision":     {v1alpha1.ToolResultSpec{Decision: v1alpha1.DecisionApprove}, false},
		"a long result":  {v1alpha1.ToolResultSpec{Result: &long}, true},
		"a long error":   {v1alpha1.ToolResultSpec{Error: &long}, true},
	} {
		result := &v1alpha1.ToolResult{Spec: test.spec}
		LeaveOutResult(result)
		if out := ResultLeftOut(result); out != test.out || reflect.ValueOf(result.Spec).IsZero() != test.out {
			t.Errorf("%s: left out: %v, kept %+v", name, out, result.Spec)
		}
	}
}
