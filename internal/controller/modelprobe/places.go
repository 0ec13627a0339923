package modelprobe

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// places has one place for each namespace, and the Models that wait for it, each once, in order.
type places struct {
	mu      sync.Mutex
	taken   map[string]bool
	waiting map[string][]types.NamespacedName
	queued  map[types.NamespacedName]bool
}

// enter takes the place of the namespace for a Model. Without one, the Model waits until next returns it.
func (p *places) enter(m types.NamespacedName) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken == nil {
		p.taken, p.waiting = map[string]bool{}, map[string][]types.NamespacedName{}
		p.queued = map[types.NamespacedName]bool{}
	}
	if !p.taken[m.Namespace] {
		p.taken[m.Namespace] = true
		return true
	}
	if !p.queued[m] {
		p.queued[m] = true
		p.waiting[m.Namespace] = append(p.waiting[m.Namespace], m)
	}
	return false
}

// leave gives the place of a namespace back.
func (p *places) leave(namespace string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.taken, namespace)
}

// next returns the Model that has waited longest if the place of its namespace is free. It may not need it any more:
// next is to be called again when the Model was looked at.
func (p *places) next(namespace string) (types.NamespacedName, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	waiting := p.waiting[namespace]
	if p.taken[namespace] || len(waiting) == 0 {
		return types.NamespacedName{}, false
	}
	first := waiting[0]
	delete(p.queued, first)
	if p.waiting[namespace] = waiting[1:]; len(waiting) == 1 {
		delete(p.waiting, namespace)
	}
	return first, true
}
