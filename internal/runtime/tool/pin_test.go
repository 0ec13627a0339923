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
		"the call":     CallDigest("turn", 2, call, `{"euros": 40}`),
		"another Turn": CallDigest("turn-2", 2, call, `{"euros": 40}`),
		"another step": CallDigest("turn", 4, call, `{"euros": 40}`),
		"another call": CallDigest("turn", 2, other(func(c *v1alpha1.ToolCall) { c.ID = "1-1" }), `{"euros": 40}`),
		"another Tool": CallDigest("turn", 2, other(func(c *v1alpha1.ToolCall) { c.ToolUID = "uid-2" }), `{"euros": 40}`),
		"another image": CallDigest(
			"turn", 2, other(func(c *v1alpha1.ToolCall) { c.ToolDigest = "digest-2" }), `{"euros": 40}`,
		),
		"another amount": CallDigest("turn", 2, call, `{"euros": 4000}`),
		"other bytes":    CallDigest("turn", 2, call, `{"euros":40}`),
		"moved bytes": CallDigest(
			"turn", 2, other(func(c *v1alpha1.ToolCall) { c.ToolUID, c.ToolDigest = "tool-uidd", "igest" }), `{"euros": 40}`,
		),
		"no arguments": CallDigest("turn", 2, call, ""),
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
