package definition

import (
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// payTool is a Tool that runs a Job.
func payTool() *v1alpha1.Tool {
	return &v1alpha1.Tool{
		ObjectMeta: metav1.ObjectMeta{Name: "pay", UID: "tool-uid", Generation: 1},
		Spec: v1alpha1.ToolSpec{
			Description: "Pays.",
			InputSchema: &v1alpha1.JSON{Raw: []byte(`{"type": "object", "properties": {"city": {"type": "string"}}}`)},
			Policy:      v1alpha1.ToolPolicyRequiresApproval,
			Job:         &v1alpha1.JobTool{Image: "example.org/pay:1", Command: []string{"/pay"}},
		},
	}
}

// Rules: TOOL-06.
func TestACallIsPinnedToWhatItsToolRuns(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*v1alpha1.Tool)
		pinned bool
	}{
		"nothing changed":     {func(*v1alpha1.Tool) {}, true},
		"another description": {func(o *v1alpha1.Tool) { o.Spec.Description = "Pays an invoice." }, true},
		"another text of the schema": {func(o *v1alpha1.Tool) {
			o.Spec.InputSchema.Raw = []byte(
				`{"type": "object", "title": "x", "properties": {"city": {"type": "string", "description": "Where."}}}`,
			)
		}, true},
		"another time for an approval": {
			func(o *v1alpha1.Tool) { o.Spec.ApprovalTimeout = &metav1.Duration{Duration: time.Hour} }, true,
		},
		"another name for people": {func(o *v1alpha1.Tool) {
			o.Spec.DisplayName, o.Spec.Hints = "Pay", []v1alpha1.ToolHint{v1alpha1.ToolHintDestructive}
		}, true},
		"another class":             {func(o *v1alpha1.Tool) { o.Spec.ConcurrencyClass = "bank" }, true},
		"the default class by name": {func(o *v1alpha1.Tool) { o.Spec.SideEffect = v1alpha1.SideEffectAtMostOnce }, true},
		"an argument becomes a variable": {func(o *v1alpha1.Tool) {
			o.Spec.InputSchema.Raw = []byte(
				`{"type": "object", "properties": {"city": {"type": "string"}, "LD_PRELOAD": {"type": "string"}}}`,
			)
		}, false},
		"another image":       {func(o *v1alpha1.Tool) { o.Spec.Job.Image = "evil.example/pay:1" }, false},
		"another argument":    {func(o *v1alpha1.Tool) { o.Spec.Job.Args = []string{"--all"} }, false},
		"another side effect": {func(o *v1alpha1.Tool) { o.Spec.SideEffect = v1alpha1.SideEffectPure }, false},
		"no approval":         {func(o *v1alpha1.Tool) { o.Spec.Policy = v1alpha1.ToolPolicyAuto }, false},
		"another executor": {func(o *v1alpha1.Tool) {
			o.Spec.Job, o.Spec.HTTP = nil, &v1alpha1.HTTPTool{URL: "https://example.org/"}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			call := v1alpha1.ToolCall{ID: "1-0"}
			Of(payTool()).Pin(&call)
			changed := payTool()
			test.change(changed)
			changed.Generation++
			if got := Of(changed).Holds(call); got != test.pinned {
				t.Errorf("changed by an update: pinned %v, want %v", got, test.pinned)
			}
			// Deleted and created again, its generation is 1.
			changed.UID, changed.Generation = "another-uid", 1
			if Of(changed).Holds(call) {
				t.Error("a Tool that was made again passes for the one that was planned with")
			}
		})
	}
	call := v1alpha1.ToolCall{ID: "1-0"}
	Of(payTool()).Pin(&call)
	if (Set{}).Planned(call) != nil {
		t.Error("a Tool that was deleted passes for the one that was planned with")
	}
}

// Calls that a version of the manager planned that did not know the UID go on after an upgrade.
func TestACallWithoutTheUIDOfItsToolIsPinnedToTheGeneration(t *testing.T) {
	call := v1alpha1.ToolCall{ID: "1-0", ToolGeneration: 1}
	if !Of(payTool()).Holds(call) {
		t.Error("the Tool that it was planned with is refused")
	}
	changed := payTool()
	changed.Generation = 2
	if Of(changed).Holds(call) {
		t.Error("a Tool that was changed passes")
	}
	if Of(&v1alpha1.Tool{}).Holds(v1alpha1.ToolCall{ID: "1-0"}) {
		t.Error("a call that is pinned to nothing starts")
	}
}

// Rules: TOOL-06, TOOL-09.
func TestADefinitionDecidesHowTheCallsOfAToolRun(t *testing.T) {
	minute := &metav1.Duration{Duration: time.Minute}
	for name, test := range map[string]struct {
		spec v1alpha1.ToolSpec
		want v1alpha1.ToolCall
	}{
		"a Job": {
			v1alpha1.ToolSpec{Job: &v1alpha1.JobTool{Timeout: minute}, ConcurrencyClass: "bank"},
			v1alpha1.ToolCall{
				Executor: v1alpha1.ToolExecutorJob, SideEffect: v1alpha1.SideEffectAtMostOnce, ConcurrencyClass: "bank",
				Timeout: minute,
			},
		},
		"a request": {
			v1alpha1.ToolSpec{HTTP: &v1alpha1.HTTPTool{Timeout: minute}, SideEffect: v1alpha1.SideEffectPure},
			v1alpha1.ToolCall{
				Executor: v1alpha1.ToolExecutorHTTP, SideEffect: v1alpha1.SideEffectPure, Timeout: minute,
			},
		},
		"a client": {
			v1alpha1.ToolSpec{Client: &v1alpha1.ClientTool{}},
			v1alpha1.ToolCall{Executor: v1alpha1.ToolExecutorClient},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var call v1alpha1.ToolCall
			Of(&v1alpha1.Tool{ObjectMeta: metav1.ObjectMeta{UID: "uid"}, Spec: test.spec}).Pin(&call)
			test.want.ToolUID, test.want.ToolDigest = "uid", Digest(&test.spec)
			if !reflect.DeepEqual(call, test.want) {
				t.Errorf("the call is planned as %+v, want %+v", call, test.want)
			}
		})
	}
}

func TestTextsThatWereLeftOutAreNotOffered(t *testing.T) {
	large := payTool()
	large.Spec.Description = strings.Repeat("d", 16<<10)
	want := Of(large.DeepCopy()).Digest()
	LeaveOut(large)
	d := Of(large)
	if !d.LeftOut() || d.LeftOutBytes() < 16<<10 || d.Digest() != want {
		t.Errorf("left out %v, %d bytes, digest %s, want %s", d.LeftOut(), d.LeftOutBytes(), d.Digest(), want)
	}
	defer func() {
		if recover() == nil {
			t.Error("the texts were offered")
		}
	}()
	d.Offer()
}
