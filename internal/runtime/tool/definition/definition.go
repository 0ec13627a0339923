package definition

import (
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool/executors"
)

// Kind is the kind of source of a definition.
type Kind string

const (
	// KindTool is a Tool object.
	KindTool Kind = "Tool"
	// KindMCPServer is a tool of an MCPServer object.
	KindMCPServer Kind = "MCPServer"
	// KindBuiltin is a capability that is part of the manager.
	KindBuiltin Kind = "Builtin"
)

// Source is where a definition comes from.
type Source struct {
	// Kind of the source.
	Kind Kind
	// Name of the object, or of the capability.
	Name string
	// UID and Generation of the object; empty for a capability.
	UID        types.UID
	Generation int64
}

// Definition is a tool that a model may call. It does not change once it is made.
type Definition struct {
	// Name that the model calls it by.
	Name string
	// DisplayName and Hints are for people; they may be empty.
	DisplayName string
	Hints       []v1alpha1.ToolHint
	// Description and InputSchema are for the model. Without an InputSchema any object is accepted.
	Description string
	InputSchema []byte
	// Executor that runs the calls.
	Executor v1alpha1.ToolExecutor
	// SideEffect is never empty for calls that the manager runs.
	SideEffect v1alpha1.SideEffect
	// Policy and ApprovalTimeout of the calls.
	Policy          v1alpha1.ToolPolicy
	ApprovalTimeout *metav1.Duration
	// ConcurrencyClass of the calls; empty for none.
	ConcurrencyClass string
	// Timeout of one run; nil for the default of the executor.
	Timeout *metav1.Duration
	// Source of the definition.
	Source Source
	// Config is the configuration of a capability that is part of the manager, as JSON; empty for none.
	Config string

	object *v1alpha1.Tool
	remote *Remote
	// unread is the size of the texts of a tool of an MCPServer that were not read yet.
	unread int64
	digest func() string
}

// CallsPerMinute is how often the Tool, or all tools of the MCPServer, may be called in a minute; nil for no limit, and
// for no definition.
func (d *Definition) CallsPerMinute() *int32 {
	switch {
	case d == nil:
		return nil
	case d.remote != nil:
		return d.remote.Server.Spec.CallsPerMinute
	case d.object != nil:
		return d.object.Spec.CallsPerMinute
	default:
		return nil
	}
}

// Of returns the definition of a Tool, which must not change any more. A cache may have left out texts of it.
func Of(t *v1alpha1.Tool) *Definition {
	spec := &t.Spec
	d := &Definition{
		Name:             t.Name,
		Description:      spec.Description,
		DisplayName:      spec.DisplayName,
		Hints:            spec.Hints,
		SideEffect:       spec.SideEffect,
		Policy:           spec.Policy,
		ApprovalTimeout:  spec.ApprovalTimeout,
		ConcurrencyClass: spec.ConcurrencyClass,
		Source:           Source{Kind: KindTool, Name: t.Name, UID: t.UID, Generation: t.Generation},
		object:           t,
		digest:           sync.OnceValue(func() string { return Digest(spec) }),
	}
	if spec.InputSchema != nil {
		d.InputSchema = spec.InputSchema.Raw
	}
	chosen := executors.Chosen(spec)
	d.Executor, d.Timeout = chosen.Name, chosen.Field.Timeout(spec)
	if spec.Agent != nil && d.InputSchema == nil {
		d.InputSchema = []byte(messageSchema)
	}
	if d.SideEffect == "" {
		d.SideEffect = chosen.SideEffect
	}
	return d
}

// messageSchema is the inputSchema of a Tool with an agent that has none of its own.
const messageSchema = `{"type":"object","properties":{"message":{"type":"string","minLength":1,` +
	`"description":"The task for the agent, with all that it needs to know: it does not see this conversation."}},` +
	`"required":["message"],"additionalProperties":false}`

// Builtin completes the definition of a tool of a capability that is part of the manager: its executor and its source.
// Without a side effect the tool has that of the executor.
func Builtin(capability string, d Definition) *Definition {
	d.Executor, d.Source = v1alpha1.ToolExecutorBuiltin, Source{Kind: KindBuiltin, Name: capability}
	if d.SideEffect == "" {
		d.SideEffect = executors.Named(d.Executor).SideEffect
	}
	d.digest = sync.OnceValue(func() string { return builtinDigest(capability, d.Name, d.SideEffect, d.Config) })
	return &d
}

// BuiltinAgent returns the definition of a tool of a capability that is part of the manager and whose calls run as
// those of a Tool with an agent. The Tool stands for that, and is no object.
func BuiltinAgent(capability string, t *v1alpha1.Tool, schema []byte) *Definition {
	d := builtinOf(capability, t)
	d.InputSchema = schema
	return d
}

// BuiltinJob returns the definition of a tool of a capability that is part of the manager and whose calls run as Jobs
// of the launcher's image. The Tool stands for that, without an image, and is no object.
func BuiltinJob(capability string, t *v1alpha1.Tool) *Definition {
	return builtinOf(capability, t)
}

func builtinOf(capability string, t *v1alpha1.Tool) *Definition {
	d := Of(t)
	d.Source = Source{Kind: KindBuiltin, Name: capability}
	d.digest = sync.OnceValue(func() string {
		return builtinDigest(capability, d.Name, d.SideEffect, Digest(&t.Spec))
	})
	return d
}

// BuiltinCapability is the name of the capability that is part of the manager and that the tool belongs to; empty for a
// tool of an object, and for no definition.
func (d *Definition) BuiltinCapability() string {
	if d == nil || d.Source.Kind != KindBuiltin {
		return ""
	}
	return d.Source.Name
}

// Object returns the Tool that the definition comes from; nil for none, and for no definition.
func (d *Definition) Object() *v1alpha1.Tool {
	if d == nil {
		return nil
	}
	return d.object
}

// Spec returns the spec of the Tool that the definition comes from; nil for none, and for no definition.
func (d *Definition) Spec() *v1alpha1.ToolSpec {
	if object := d.Object(); object != nil {
		return &object.Spec
	}
	return nil
}

// SecretArguments are the JSON Pointers to the arguments that may refer to secrets of the Session; none for no
// definition.
func (d *Definition) SecretArguments() []string {
	var allowed []v1alpha1.SecretArgument
	if spec := d.Spec(); spec != nil && spec.HTTP != nil {
		allowed = spec.HTTP.SecretArguments
	} else if remote := d.Remote(); remote != nil {
		allowed = remote.rule().SecretArguments
	}
	pointers := make([]string, len(allowed))
	for i, pointer := range allowed {
		pointers[i] = string(pointer)
	}
	return pointers
}

// SecretHeaders are the headers of the requests that have a secret of the Session; none for no definition.
func (d *Definition) SecretHeaders() []v1alpha1.HeaderSessionSecret {
	var secrets []v1alpha1.HeaderSessionSecret
	for _, header := range d.headers() {
		if header.OfSession() {
			secrets = append(secrets, *header.SessionSecret)
		}
	}
	return secrets
}

// headers of the requests of an HTTP tool, or of a tool of an MCPServer.
func (d *Definition) headers() []v1alpha1.HTTPHeader {
	if spec := d.Spec(); spec != nil && spec.HTTP != nil {
		return spec.HTTP.Headers
	}
	if remote := d.Remote(); remote != nil {
		return remote.Server.Spec.Headers
	}
	return nil
}

// LeftOut reports whether a cache has left out the texts for the model.
func (d *Definition) LeftOut() bool {
	spec := d.Spec()
	return spec != nil && LeftOut(spec) || d != nil && d.unread > 0
}

// LeftOutBytes is the size of the texts for the model that a cache has left out.
func (d *Definition) LeftOutBytes() int64 {
	if spec := d.Spec(); spec != nil {
		return LeftOutBytes(spec)
	}
	return d.unread
}

// Offer returns the texts for the model: the description, and the schema of the arguments. It panics if they were left
// out.
func (d *Definition) Offer() (description string, schema []byte) {
	if d.LeftOut() {
		panic("the definition of a Tool is used before it is read")
	}
	return d.Description, d.InputSchema
}

// Digest is the start of a SHA-256, in hexadecimal. Two definitions have the same if a call with the same arguments
// runs in the same way under both.
func (d *Definition) Digest() string {
	return d.digest()
}

// Pin plans a call with the definition: it records in the call how it runs, and what it was planned with.
func (d *Definition) Pin(call *v1alpha1.ToolCall) {
	call.ToolUID, call.ToolDigest = d.Source.UID, d.Digest()
	call.Executor, call.SideEffect, call.ConcurrencyClass = d.Executor, d.SideEffect, d.ConcurrencyClass
	if d.Timeout != nil {
		call.Timeout = &metav1.Duration{Duration: d.Timeout.Duration}
	}
}

// PinTask plans a call that starts a task with the definition. To start it may be repeated, because it is recorded in a
// store; the task itself is started once.
func (d *Definition) PinTask(call *v1alpha1.ToolCall) {
	d.Pin(call)
	call.Executor, call.SideEffect, call.ConcurrencyClass = v1alpha1.ToolExecutorTask, v1alpha1.SideEffectIdempotent, ""
}

// Holds reports whether a call was planned with the definition, and runs in the same way under it. It is false for no
// definition.
func (d *Definition) Holds(call v1alpha1.ToolCall) bool {
	switch {
	case d == nil:
		return false
	case call.ToolDigest == "":
		// It was planned by a version of the manager that pinned only the generation.
		return call.ToolGeneration != 0 && d.Source.Generation == call.ToolGeneration
	default:
		return d.Source.UID == call.ToolUID && d.Digest() == call.ToolDigest
	}
}

// Set is the definitions of a Turn, in the order in which a model is offered them. A name occurs once.
type Set []*Definition

// Find returns the definition of a name; nil for none.
func (s Set) Find(name string) *Definition {
	if i := slices.IndexFunc(s, func(d *Definition) bool { return d.Name == name }); i >= 0 {
		return s[i]
	}
	return nil
}

// PermitSecrets reports whether a tool may be sent secrets of the Session.
func (s Set) PermitSecrets() bool {
	return slices.ContainsFunc(s, func(d *Definition) bool {
		return len(d.SecretArguments()) > 0 || slices.ContainsFunc(d.headers(), v1alpha1.HTTPHeader.OfSession)
	})
}

// Planned returns the definition that a call was planned with; nil if it is gone or was changed.
func (s Set) Planned(call v1alpha1.ToolCall) *Definition {
	name := call.Name
	if call.Background != "" {
		name = call.Background
	}
	if d := s.Find(name); d.Holds(call) {
		return d
	}
	return nil
}
