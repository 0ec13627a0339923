package subagent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/capability"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/executors"
)

// Kinds of the objects.
const (
	sessionKind = "Session"
	// defaultJournalLimit is that of the API.
	defaultJournalLimit = "16Mi"
)

// nameHexDigits is how much of a hash is in a name.
const nameHexDigits = 20

// MaxMessageCharacters is the length of the longest message of a Turn.
const MaxMessageCharacters = 65536

// Call is a call that runs as a sub-agent.
type Call struct {
	// Session and Turn that make the call. A cache may have left out texts of both.
	Session *v1alpha1.Session
	Turn    *v1alpha1.Turn
	// Step of the Turn's plan that makes the call.
	Step int32
	// Call as it was pinned.
	Call v1alpha1.ToolCall
	// Tool that the call was planned with.
	Tool *v1alpha1.Tool
	// Arguments from the model.
	Arguments string
}

// Name returns the name of the Session and of the Turn of a call. It is a hash, so that it contains no text from a
// model.
func Name(turn types.UID, step int32, call string) string {
	return "agent-" + tool.Hash("sub-agent", string(turn), strconv.Itoa(int(step)), call)[:nameHexDigits]
}

// Name is that of the Session and of the Turn of the call.
func (c Call) Name() string {
	return Name(c.Turn.UID, c.Step, c.Call.ID)
}

// NewSession returns the Session of the call. It has the Harness and the Agent that the Tool names, or those of the
// calling Session, and of the layer of that one what narrows the network. The same Call produces the same Session.
func (c Call) NewSession() *v1alpha1.Session {
	agent := c.Tool.Spec.Agent
	spec := v1alpha1.SessionSpec{
		HarnessRef:   c.Session.Spec.HarnessRef,
		AgentRef:     c.Session.Spec.AgentRef,
		Origin:       &v1alpha1.Origin{Type: v1alpha1.OriginTypeSubAgent, SubAgent: c.origin()},
		Title:        fmt.Sprintf("%s of Turn %s", c.Tool.Name, c.Turn.Name),
		ClientTools:  v1alpha1.ClientToolsPolicyWait,
		JournalLimit: ptr.To(resource.MustParse(defaultJournalLimit)),
	}
	if agent.HarnessRef != nil {
		spec.HarnessRef, spec.AgentRef = *agent.HarnessRef, agent.AgentRef
	}
	spec.MaxIterations = agent.MaxIterations
	spec.Blueprint = c.blueprint()
	spec.NetworkAccess = c.Session.Spec.NetworkAccess.DeepCopy()
	if plan := c.Turn.Status.Plan; plan != nil {
		spec.Locale = plan.Locale
	}
	if policy := c.Session.Spec.ClientTools; policy != "" {
		spec.ClientTools = policy
	}
	if hint, given := c.Session.Spec.Hints[v1alpha1.HintSetupConnection]; given && len(hint.Raw) <= maxHintBytes {
		spec.Hints = map[string]v1alpha1.JSON{v1alpha1.HintSetupConnection: *hint.DeepCopy()}
	}
	return &v1alpha1.Session{
		ObjectMeta: c.meta(c.Session.Name, c.Session.UID),
		Spec:       *spec.DeepCopy(),
	}
}

// maxHintBytes is the size of the largest hint that is read.
const maxHintBytes = 64

// NewTurn returns the Turn of the call, in the Session with this UID, which owns it.
func (c Call) NewTurn(session types.UID) *v1alpha1.Turn {
	timeout := executors.Named(v1alpha1.ToolExecutorAgent).TimeoutOf(c.Call, &c.Tool.Spec)
	seconds := int64((timeout + time.Second - 1) / time.Second)
	return &v1alpha1.Turn{
		ObjectMeta: c.meta(c.Name(), session),
		Spec: v1alpha1.TurnSpec{
			SessionRef:            v1alpha1.LocalReference{Name: c.Name()},
			Input:                 c.message(),
			Delivery:              v1alpha1.DeliveryQueue,
			DesiredState:          v1alpha1.DesiredStateRunning,
			SubmittedBy:           c.user(),
			TraceParent:           c.traceParent(),
			Origin:                &v1alpha1.TurnOrigin{Type: v1alpha1.TurnOriginTypeSubAgent, SubAgent: c.origin()},
			ActiveDeadlineSeconds: &seconds,
		},
	}
}

// user is the user of the calling Turn. That of a Turn with messages of several users is not known, so that the
// sub-agent acts for none of them.
func (c Call) user() string {
	if c.Turn.Status.Users == v1alpha1.TurnUsersSeveral {
		return ""
	}
	return c.Turn.Spec.SubmittedBy
}

// traceParent is the trace context of the call, so that the sub-agent belongs to the trace of its caller.
func (c Call) traceParent() string {
	of := event.Identity{Turn: c.Turn.UID, TraceParent: c.Turn.Spec.TraceParent}
	return event.NewFactory(of, nil).Step(c.Step, 1).TraceParent(c.Call.ID)
}

// meta returns the metadata of an object of the call, with the Session that owns it. Labels and annotations of users
// are not copied.
func (c Call) meta(owner string, uid types.UID) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:      c.Name(),
		Namespace: c.Turn.Namespace,
		Labels: map[string]string{
			v1alpha1.LabelManagedBy: v1alpha1.ManagedByCapstan,
			v1alpha1.LabelTurnUID:   string(c.Turn.UID),
			v1alpha1.LabelCall:      c.Call.ID,
		},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: sessionKind, Name: owner, UID: uid,
		}},
	}
}

// origin identifies the call, with the Session at the top of the tree.
func (c Call) origin() *v1alpha1.SubAgentOrigin {
	own := v1alpha1.ObjectIdentity{Name: c.Session.Name, UID: c.Session.UID}
	of := &v1alpha1.SubAgentOrigin{
		Session: own, Turn: v1alpha1.ObjectIdentity{Name: c.Turn.Name, UID: c.Turn.UID}, Step: c.Step,
		CallID: c.Call.ID, Root: own, Depth: Depth(c.Session) + 1, Retention: c.Tool.Spec.Agent.Retention,
	}
	if of.Retention == "" {
		of.Retention = v1alpha1.SubAgentRetentionDelete
	}
	if above := c.Session.Spec.Origin.SubAgentOf(); above != nil {
		of.Root = above.Root
	}
	return of
}

// Depth is the number of Sessions above a Session, in its tree of sub-agents.
func Depth(session *v1alpha1.Session) int32 {
	if of := session.Spec.Origin.SubAgentOf(); of != nil {
		return of.Depth
	}
	return 0
}

// blueprint is what the Session of the call is, with the argument config; nil for none.
func (c Call) blueprint() *v1alpha1.BlueprintReference {
	chosen := c.Tool.Spec.Agent.Blueprint
	if chosen == nil {
		return nil
	}
	ref := &v1alpha1.BlueprintReference{Capability: chosen.Capability, Name: chosen.Name, MaxRisk: chosen.MaxRisk}
	if config, _ := splitConfig(c.Arguments); config != "" {
		ref.Config = &v1alpha1.JSON{Raw: []byte(config)}
	}
	return ref
}

// message is that of the Turn of the call. The configuration of a blueprint is no part of it.
func (c Call) message() string {
	if c.Tool.Spec.Agent.Blueprint == nil {
		return Message(c.Arguments)
	}
	_, rest := splitConfig(c.Arguments)
	return Message(rest)
}

// splitConfig returns the argument config, if it is an object, and the other arguments.
func splitConfig(arguments string) (config, rest string) {
	var given map[string]json.RawMessage
	if json.Unmarshal([]byte(tool.ArgumentsOrEmpty(arguments)), &given) != nil {
		return "", arguments
	}
	var values map[string]any
	decoder := json.NewDecoder(bytes.NewReader(given["config"]))
	decoder.UseNumber()
	if decoder.Decode(&values) != nil || values == nil {
		return "", arguments
	}
	delete(given, "config")
	own, errOwn := json.Marshal(values)
	others, errOthers := json.Marshal(given)
	if errOwn != nil || errOthers != nil {
		return "", arguments
	}
	return string(own), string(others)
}

// Message returns the message for the sub-agent: the argument message, if it is the only one and a text, and otherwise
// the arguments as JSON.
func Message(arguments string) string {
	arguments = tool.ArgumentsOrEmpty(arguments)
	var given map[string]json.RawMessage
	var message string
	if json.Unmarshal([]byte(arguments), &given) == nil && len(given) == 1 &&
		json.Unmarshal(given["message"], &message) == nil && strings.TrimSpace(message) != "" {
		return message
	}
	return arguments
}

// TooLong returns the outcome of a call whose message is longer than a Turn's message may be, or whose configuration is
// longer than that of a blueprint may be; nil for any other.
func (c Call) TooLong() *tool.Outcome {
	if b := c.blueprint(); b != nil && b.Config != nil && len(b.Config.Raw) > capability.MaxConfigBytes {
		outcome := tool.NotExecuted(v1alpha1.ToolCallReasonArgumentsTooLarge, fmt.Sprintf(
			"the config of the sub-agent has more than %d bytes; send less", capability.MaxConfigBytes))
		return &outcome
	}
	if utf8.RuneCountInString(c.message()) <= MaxMessageCharacters {
		return nil
	}
	outcome := tool.NotExecuted(v1alpha1.ToolCallReasonArgumentsTooLarge, fmt.Sprintf(
		"the message for the sub-agent has more than %d characters; send less", MaxMessageCharacters))
	return &outcome
}

// SameSession reports whether an existing Session, read whole, is the one that the call needs: it has the same owner,
// origin and configuration. Its labels, which users may change, do not matter.
func (c Call) SameSession(found *v1alpha1.Session) bool {
	want, spec := c.NewSession(), *found.Spec.DeepCopy()
	if sameConfig(spec.Blueprint, want.Spec.Blueprint) {
		spec.Blueprint.Config = want.Spec.Blueprint.Config
	}
	return found.DeletionTimestamp.IsZero() && ownedBy(found, c.Session.UID) &&
		equality.Semantic.DeepEqual(spec, want.Spec)
}

// sameConfig reports whether two blueprints have equal configurations. An API server encodes numbers in its own way.
func sameConfig(a, b *v1alpha1.BlueprintReference) bool {
	if a == nil || b == nil || a.Config == nil || b.Config == nil {
		return false
	}
	var one, other any
	return json.Unmarshal(a.Config.Raw, &one) == nil && json.Unmarshal(b.Config.Raw, &other) == nil &&
		reflect.DeepEqual(one, other)
}

// SameTurn reports whether an existing Turn, read whole, is the one that the call needs. It may have been cancelled.
func (c Call) SameTurn(found *v1alpha1.Turn, session types.UID) bool {
	want := c.NewTurn(session)
	spec := *found.Spec.DeepCopy()
	spec.DesiredState, spec.TTLSecondsAfterFinished = want.Spec.DesiredState, nil
	if spec.TraceParent == "" {
		want.Spec.TraceParent = "" // An earlier build created the Turn.
	}
	return ownedBy(found, session) && equality.Semantic.DeepEqual(spec, want.Spec)
}

// Runs reports whether an object with an origin, of which a cache may have left out texts, runs for a call: the API
// accepts an origin from the manager alone.
func Runs(of *v1alpha1.SubAgentOrigin, turn types.UID, step int32, call string) bool {
	return of != nil && of.Turn.UID == turn && of.Step == step && of.CallID == call
}

// Used reports whether a Session has admitted a Turn.
func Used(session *v1alpha1.Session) bool {
	return session.Status.ActiveTurn != nil || session.Status.Totals.Turns > 0 || session.Status.Journal.Head > 0
}

func ownedBy(o metav1.Object, owner types.UID) bool {
	owners := o.GetOwnerReferences()
	return len(owners) == 1 && owners[0].UID == owner && owners[0].Kind == sessionKind
}
