package tool

import "github.com/capstan-dev/capstan/api/v1alpha1"

// CarriedOut reports whether the manager carries out the calls of an executor, itself or as Jobs.
func CarriedOut(executor v1alpha1.ToolExecutor) bool {
	return executor == v1alpha1.ToolExecutorJob || InProcess(executor)
}

// InProcess reports whether the process that runs a Turn carries out the calls of an executor itself. Such calls end
// with their process.
func InProcess(executor v1alpha1.ToolExecutor) bool {
	return executor == v1alpha1.ToolExecutorHTTP || executor == v1alpha1.ToolExecutorBuiltin
}
