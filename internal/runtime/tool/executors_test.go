package tool

import (
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

func TestWhoCarriesOutTheCallsOfAnExecutor(t *testing.T) {
	for executor, want := range map[v1alpha1.ToolExecutor]struct{ carriedOut, inProcess bool }{
		v1alpha1.ToolExecutorJob:     {carriedOut: true},
		v1alpha1.ToolExecutorHTTP:    {carriedOut: true, inProcess: true},
		v1alpha1.ToolExecutorBuiltin: {carriedOut: true, inProcess: true},
		v1alpha1.ToolExecutorClient:  {},
		v1alpha1.ToolExecutorNone:    {},
	} {
		if CarriedOut(executor) != want.carriedOut || InProcess(executor) != want.inProcess {
			t.Errorf("%s: carried out %v, in process %v", executor, CarriedOut(executor), InProcess(executor))
		}
	}
}
