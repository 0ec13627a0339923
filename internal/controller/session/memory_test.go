package session

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestMemoryDistinguishesAReplacedSession(t *testing.T) {
	var m memory
	k := key("a", "demo")
	if _, replaced := m.observe(k, "1"); replaced {
		t.Error("a Session that was never seen counts as replaced")
	}
	m.recordWrite(k, "100")
	if _, replaced := m.observe(k, "1"); replaced || m.written(k) != "100" {
		t.Error("seeing the same Session again forgot the writes")
	}
	if old, replaced := m.observe(k, "2"); !replaced || old != "1" {
		t.Errorf("a Session created again under the name: replaced %v, before %q", replaced, old)
	}
	if m.written(k) != "" {
		t.Error("writes to the old Session count for the new one")
	}
	if uid, ok := m.forget(k); !ok || uid != "2" {
		t.Errorf("forgot %q, %v", uid, ok)
	}
	if _, ok := m.forget(k); ok {
		t.Error("forgot twice")
	}
}

func key(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}
