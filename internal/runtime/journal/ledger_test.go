package journal

import "testing"

func TestABytesCountThatComesLateDoesNotOutliveItsSession(t *testing.T) {
	var l ledger
	gone, next := Session{Namespace: "ns", UID: "gone"}, Session{Namespace: "ns", UID: "next"}
	l.set(gone, 100)
	l.set(next, 1)
	l.forget(gone)
	l.set(gone, 100) // by a read that was in progress
	if got := l.otherBytes(next); got != 0 {
		t.Errorf("the namespace is charged %d bytes for a journal that was deleted", got)
	}
	for range 2 * maxForgotten {
		l.forget(Session{Namespace: "other", UID: "x"})
	}
	if len(l.forgotten) > maxForgotten || len(l.namespaces) != 1 {
		t.Errorf("%d Sessions and %d namespaces are remembered", len(l.forgotten), len(l.namespaces))
	}
	if got := l.sizeOf(next); got != 1 {
		t.Errorf("the other journal is charged %d bytes", got)
	}
}
