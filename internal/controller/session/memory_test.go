package session

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
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

func TestEventsDoNotDelayTheNextCheckOfAJournal(t *testing.T) {
	m, now := &memory{}, time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	session := key("ns", "demo")
	m.observe(session, "a")
	refused, damaged := &journal.Obstacle{Reason: v1alpha1.ReasonJournalRefused}, &journal.Obstacle{
		Reason: v1alpha1.ReasonJournalDamaged,
	}
	for i, step := range []struct {
		after    time.Duration
		obstacle *journal.Obstacle
		pause    time.Duration
		isNew    bool
	}{
		{0, refused, 10 * time.Second, true},
		{time.Second, refused, 9 * time.Second, false},
		{time.Second, refused, 8 * time.Second, false},
		{8 * time.Second, refused, 20 * time.Second, false},
		{5 * time.Second, refused, 15 * time.Second, false},
		{time.Second, damaged, 5 * time.Minute, true},
		{time.Second, nil, 0, false},
		{time.Second, refused, 10 * time.Second, true},
	} {
		now = now.Add(step.after)
		if step.obstacle == nil {
			m.goesOn(session)
			continue
		}
		if pause, isNew := m.stalled(session, step.obstacle, now); pause != step.pause || isNew != step.isNew {
			t.Errorf("pass %d: the next check comes after %v, new %t, want %v, %t", i, pause, isNew, step.pause, step.isNew)
		}
	}
}
