package pacing

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// within checks a pause, which is up to a fifth longer than it would be without jitter.
func within(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	if got < want || got > want+want/5 {
		t.Errorf("%s: the next look is after %s, want %s to a fifth more", what, got, want)
	}
}

func TestLooksGetRarerTheLongerAnObjectWaits(t *testing.T) {
	var looks Rechecks
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	key := types.NamespacedName{Namespace: "ns", Name: "claude"}
	within(t, "at first", looks.Next(key, "a Secret", now), 2*time.Second)
	within(t, "after a minute", looks.Next(key, "a Secret", now.Add(time.Minute)), 30*time.Second)
	within(t, "after a day", looks.Next(key, "a Secret", now.Add(24*time.Hour)), 3*time.Minute)
	within(t, "for something else", looks.Next(key, "its key", now.Add(24*time.Hour)), 2*time.Second)
	looks.End(key)
	within(t, "anew", looks.Next(key, "its key", now.Add(48*time.Hour)), 2*time.Second)
}

func TestTheObjectsOfANamespaceShareOneLookASecond(t *testing.T) {
	var looks Rechecks
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	crowd := func(i int) types.NamespacedName { return types.NamespacedName{Namespace: "crowd", Name: fmt.Sprint(i)} }
	for i := range 3000 {
		looks.Next(crowd(i), "a Secret", now)
	}
	within(t, "one of 3000", looks.Next(crowd(7), "a Secret", now.Add(time.Minute)), 3000*time.Second)
	within(
		t,
		"in another namespace",
		looks.Next(types.NamespacedName{Namespace: "quiet", Name: "m"}, "a Secret", now),
		2*time.Second,
	)
	for i := range 3000 {
		looks.End(crowd(i))
		looks.End(crowd(i))
	}
	within(t, "when the others have ended", looks.Next(crowd(7), "a Secret", now), 2*time.Second)
	if len(looks.waiting) != 2 || len(looks.count) != 2 {
		t.Errorf("%d objects in %d namespaces are remembered, want 2 in 2", len(looks.waiting), len(looks.count))
	}
}
