package suite

import (
	"sync"

	"github.com/capstan-dev/capstan/capstantest"
)

// Jobs has the functions that stand for the tools of each spec's namespace. The zero value has none: the result of a
// call names the call then.
type Jobs struct {
	mu sync.Mutex
	of map[string]capstantest.JobRunner
}

// In sets the function of a namespace.
func (j *Jobs) In(namespace string, run capstantest.JobRunner) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.of == nil {
		j.of = map[string]capstantest.JobRunner{}
	}
	j.of[namespace] = run
}

// Run is a capstantest.JobRunner.
func (j *Jobs) Run(call capstantest.Call) (stdout, stderr string, exit int) {
	j.mu.Lock()
	run := j.of[call.Namespace]
	j.mu.Unlock()
	if run == nil {
		return "result of " + call.ID, "", 0
	}
	return run(call)
}
