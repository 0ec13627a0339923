package executors

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Carrier is a component that carries out calls.
type Carrier string

const (
	// CarrierCluster: objects in the cluster carry out the calls. Their state is observed, after a restart too.
	CarrierCluster Carrier = "Cluster"
	// CarrierProcess: the process that runs the Turn carries out the calls. They end with it.
	CarrierProcess Carrier = "Process"
	// CarrierClient: a client of the Session carries out the calls, and creates a ToolResult for each.
	CarrierClient Carrier = "Client"
)

// Executor has the properties that all calls of an executor share.
type Executor struct {
	// Name of the executor, which calls are pinned to.
	Name v1alpha1.ToolExecutor
	// Carrier of the calls.
	Carrier Carrier
	// SideEffect of a tool that sets none; empty if the class of the calls has no meaning.
	SideEffect v1alpha1.SideEffect
	// Timeout of a call whose tool sets none; 0 for no timeout.
	Timeout time.Duration
	// Field of a Tool that chooses the executor. The zero Field chooses nothing.
	Field Field
}

// TimeoutOf returns how long a call may take: the value pinned in the call takes precedence, then that of its Tool,
// then that of the executor. spec may be nil.
func (e Executor) TimeoutOf(call v1alpha1.ToolCall, spec *v1alpha1.ToolSpec) time.Duration {
	for _, timeout := range []*metav1.Duration{call.Timeout, e.Field.Timeout(spec)} {
		if timeout != nil && timeout.Duration > 0 {
			return timeout.Duration
		}
	}
	return e.Timeout
}

// Field is a field of ToolSpec, of which a Tool sets exactly one.
type Field struct {
	// Name of the field in JSON.
	Name string

	value   func(*v1alpha1.ToolSpec) any
	timeout func(*v1alpha1.ToolSpec) *metav1.Duration
}

// Of returns the value of the field, for its encoding; nil if the Tool does not set it.
func (f Field) Of(spec *v1alpha1.ToolSpec) any {
	if f.value == nil || spec == nil {
		return nil
	}
	return f.value(spec)
}

// Timeout returns the timeout that the Tool sets in the field; nil for none.
func (f Field) Timeout(spec *v1alpha1.ToolSpec) *metav1.Duration {
	if f.Of(spec) == nil {
		return nil
	}
	return f.timeout(spec)
}

// field describes a field of ToolSpec.
func field[T any](
	name string, of func(*v1alpha1.ToolSpec) *T, timeout func(*T) *metav1.Duration,
) Field {
	return Field{
		Name: name,
		value: func(spec *v1alpha1.ToolSpec) any {
			value := of(spec)
			if value == nil {
				return nil
			}
			return value
		},
		timeout: func(spec *v1alpha1.ToolSpec) *metav1.Duration { return timeout(of(spec)) },
	}
}
