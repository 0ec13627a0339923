package executors

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// registry has one entry for each executor. Fields of Tools are part of digests in this order: a new executor is added
// at the end.
var registry = []Executor{
	{
		Name:       v1alpha1.ToolExecutorJob,
		Carrier:    CarrierCluster,
		SideEffect: v1alpha1.SideEffectAtMostOnce,
		Timeout:    5 * time.Minute,
		Field: field("job", func(spec *v1alpha1.ToolSpec) *v1alpha1.JobTool { return spec.Job },
			func(job *v1alpha1.JobTool) *metav1.Duration { return job.Timeout }),
	},
	{
		Name:       v1alpha1.ToolExecutorHTTP,
		Carrier:    CarrierProcess,
		SideEffect: v1alpha1.SideEffectAtMostOnce,
		Timeout:    30 * time.Second,
		Field: field("http", func(spec *v1alpha1.ToolSpec) *v1alpha1.HTTPTool { return spec.HTTP },
			func(http *v1alpha1.HTTPTool) *metav1.Duration { return http.Timeout }),
	},
	{
		Name:    v1alpha1.ToolExecutorClient,
		Carrier: CarrierClient,
		// What a client does in its own process is of no concern to the runtime, which never repeats it.
		SideEffect: "",
		Field: field("client", func(spec *v1alpha1.ToolSpec) *v1alpha1.ClientTool { return spec.Client },
			func(*v1alpha1.ClientTool) *metav1.Duration { return nil }),
	},
	{
		Name:       v1alpha1.ToolExecutorBuiltin,
		Carrier:    CarrierProcess,
		SideEffect: v1alpha1.SideEffectPure,
	},
	{
		Name:       v1alpha1.ToolExecutorMCP,
		Carrier:    CarrierProcess,
		SideEffect: v1alpha1.SideEffectAtMostOnce,
		Timeout:    30 * time.Second,
	},
	{
		Name:       v1alpha1.ToolExecutorAgent,
		Carrier:    CarrierCluster,
		SideEffect: v1alpha1.SideEffectAtMostOnce,
		Timeout:    5 * time.Minute,
		Field: field("agent", func(spec *v1alpha1.ToolSpec) *v1alpha1.AgentTool { return spec.Agent },
			func(agent *v1alpha1.AgentTool) *metav1.Duration { return agent.Timeout }),
	},
	{
		Name:    v1alpha1.ToolExecutorTask,
		Carrier: CarrierProcess,
		// The call records the task, once. What the task does is the concern of its tool.
		SideEffect: v1alpha1.SideEffectIdempotent,
	},
}

// All returns all executors, in the order of the registry.
func All() []Executor {
	return slices.Clone(registry)
}

// Named returns the executor of a name; the zero Executor for an unknown name, as for calls that were refused.
func Named(name v1alpha1.ToolExecutor) Executor {
	for _, e := range registry {
		if e.Name == name {
			return e
		}
	}
	return Executor{}
}

// Chosen returns the executor that a Tool chooses by its fields; the zero Executor if it chooses none, which the API
// does not admit.
func Chosen(spec *v1alpha1.ToolSpec) Executor {
	for _, e := range registry {
		if e.Field.Of(spec) != nil {
			return e
		}
	}
	return Executor{}
}

// CarriedOut reports whether the manager carries out the calls of an executor, itself or in the cluster.
func CarriedOut(name v1alpha1.ToolExecutor) bool {
	carrier := Named(name).Carrier
	return carrier == CarrierCluster || carrier == CarrierProcess
}

// InCluster reports whether objects in the cluster carry out the calls of an executor. The in-process runtime, which
// has no cluster, carries them out itself.
func InCluster(name v1alpha1.ToolExecutor) bool {
	return Named(name).Carrier == CarrierCluster
}

// InProcess reports whether the process that runs a Turn carries out the calls of an executor itself. Such calls end
// with their process.
func InProcess(name v1alpha1.ToolExecutor) bool {
	return Named(name).Carrier == CarrierProcess
}
