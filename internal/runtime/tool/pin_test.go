package tool

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

const citySchema = `{"type": "object", "properties": {"city": {"type": "string"}}}`

// payTool is a Tool that runs a Job.
func payTool() *v1alpha1.Tool {
	return &v1alpha1.Tool{
		ObjectMeta: metav1.ObjectMeta{Name: "pay", UID: "tool-uid", Generation: 1},
		Spec: v1alpha1.ToolSpec{
			Description: "Pays.",
			InputSchema: &v1alpha1.JSON{Raw: []byte(citySchema)},
			Policy:      v1alpha1.ToolPolicyRequiresApproval,
			Job:         &v1alpha1.JobTool{Image: "example.org/pay:1", Command: []string{"/pay"}},
		},
	}
}

func TestACallIsPinnedToWhatItsToolRuns(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*v1alpha1.Tool)
		pinned bool
	}{
		"nothing changed":     {func(*v1alpha1.Tool) {}, true},
		"another description": {func(o *v1alpha1.Tool) { o.Spec.Description = "Pays somebody." }, true},
		"another text of the schema": {func(o *v1alpha1.Tool) {
			o.Spec.InputSchema.Raw = []byte(`{"type": "object", "title": "x", "properties": {"city": {"type": "string", "description": "Where."}}}`)
		}, true},
		"another time for an approval": {func(o *v1alpha1.Tool) { o.Spec.ApprovalTimeout = &metav1.Duration{Duration: time.Hour} }, true},
		"another class":                {func(o *v1alpha1.Tool) { o.Spec.ConcurrencyClass = "bank" }, true},
		"the default class by name":    {func(o *v1alpha1.Tool) { o.Spec.SideEffect = v1alpha1.SideEffectAtMostOnce }, true},
		"an argument becomes a variable": {func(o *v1alpha1.Tool) {
			o.Spec.InputSchema.Raw = []byte(`{"type": "object", "properties": {"city": {"type": "string"}, "LD_PRELOAD": {"type": "string"}}}`)
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
			Pin(&call, payTool())
			changed := payTool()
			test.change(changed)
			changed.Generation++
			if got := (Pins{}).Hold(call, changed); got != test.pinned {
				t.Errorf("changed by an update: pinned %v, want %v", got, test.pinned)
			}
			// Deleted and created again, its generation is 1.
			changed.UID, changed.Generation = "another-uid", 1
			if (Pins{}).Hold(call, changed) {
				t.Error("a Tool that was made again passes for the one that was planned with")
			}
		})
	}
	call := v1alpha1.ToolCall{ID: "1-0"}
	Pin(&call, payTool())
	if (Pins{}).Hold(call, nil) {
		t.Error("a Tool that is gone passes for the one that was planned with")
	}
}

// Calls that a version of the manager planned that did not know the UID go on after an upgrade.
func TestACallWithoutTheUIDOfItsToolIsPinnedToTheGeneration(t *testing.T) {
	call := v1alpha1.ToolCall{ID: "1-0", ToolGeneration: 1}
	if !(Pins{}).Hold(call, payTool()) {
		t.Error("the Tool that it was planned with is refused")
	}
	changed := payTool()
	changed.Generation = 2
	if (Pins{}).Hold(call, changed) {
		t.Error("a Tool that was changed passes")
	}
	if (Pins{}).Hold(v1alpha1.ToolCall{ID: "1-0"}, &v1alpha1.Tool{}) {
		t.Error("a call that is pinned to nothing starts")
	}
}

func TestADigestNeverChanges(t *testing.T) {
	spec := payTool().Spec
	spec.Job.Env = []v1alpha1.EnvVar{{Name: "A", Value: "b"}}
	spec.Job.Timeout = &metav1.Duration{Duration: time.Minute}
	const digest = "a2c544be609989ef6c5c6d0f0aa68ff9e50285b1"
	if got := Digest(&spec); got != digest {
		t.Errorf(
			"the digest of a Tool is %s, and was %s: calls that are planned would end as ToolChanged with an upgrade",
			got,
			digest,
		)
	}
	call := v1alpha1.ToolCall{ID: "1-0", ToolUID: "tool-uid", ToolDigest: "d"}
	const ofCall = "626a204bc3b92dce8b131f94ec70c81c812bbcd3618bd660ce74c74706449443"
	if got := CallDigest("turn-uid", 2, call, `{"euros": 40}`); got != ofCall {
		t.Errorf("the digest of a call is %s, and was %s: approvals would be refused with an upgrade", got, ofCall)
	}
}

func TestACallDigestIsOfEverythingThatAnApprovalIsAbout(t *testing.T) {
	call := v1alpha1.ToolCall{ID: "1-0", ToolUID: "tool-uid", ToolDigest: "digest"}
	other := func(change func(*v1alpha1.ToolCall)) v1alpha1.ToolCall {
		changed := call
		change(&changed)
		return changed
	}
	digests := map[string]string{}
	for name, digest := range map[string]string{
		"the call":       CallDigest("turn", 2, call, `{"euros": 40}`),
		"another Turn":   CallDigest("turn-2", 2, call, `{"euros": 40}`),
		"another step":   CallDigest("turn", 4, call, `{"euros": 40}`),
		"another call":   CallDigest("turn", 2, other(func(c *v1alpha1.ToolCall) { c.ID = "1-1" }), `{"euros": 40}`),
		"another Tool":   CallDigest("turn", 2, other(func(c *v1alpha1.ToolCall) { c.ToolUID = "uid-2" }), `{"euros": 40}`),
		"another image":  CallDigest("turn", 2, other(func(c *v1alpha1.ToolCall) { c.ToolDigest = "digest-2" }), `{"euros": 40}`),
		"another amount": CallDigest("turn", 2, call, `{"euros": 4000}`),
		"other bytes":    CallDigest("turn", 2, call, `{"euros":40}`),
		"moved bytes":    CallDigest("turn", 2, other(func(c *v1alpha1.ToolCall) { c.ToolUID, c.ToolDigest = "tool-uidd", "igest" }), `{"euros": 40}`),
		"no arguments":   CallDigest("turn", 2, call, ""),
	} {
		if before, taken := digests[digest]; taken || len(digest) != 64 {
			t.Errorf("%s has the digest %q, which is also that of %s", name, digest, before)
		}
		digests[digest] = name
	}
	if CallDigest("turn", 2, call, " ") != CallDigest("turn", 2, call, "{}") {
		t.Error("blank arguments stand for an empty object, which is what the tool is given")
	}
}
