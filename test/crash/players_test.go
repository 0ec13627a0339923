package crash_test

import (
	"sync"

	"github.com/capstan-dev/capstan/capstantest"
)

// toolPlayers has the functions that stand for the tools of each run.
type toolPlayers struct {
	mu   sync.Mutex
	runs map[string]*run
}

func (p *toolPlayers) play(r *run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.runs == nil {
		p.runs = map[string]*run{}
	}
	p.runs[r.namespace] = r
}

func (p *toolPlayers) of(namespace string) *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runs[namespace]
}

// run is the JobRunner of the kits.
func (p *toolPlayers) run(call capstantest.Call) (stdout, stderr string, exit int) {
	r := p.of(call.Namespace)
	if r != nil {
		defer r.toolStarted()
	}
	if r != nil && r.exit != nil {
		exit = r.exit(r, call)
	}
	if r == nil || r.tool == nil {
		return "result of " + call.ID, "", exit
	}
	return r.tool(r, call), "", exit
}
