package tooloutput

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// open counts the logs that were opened by namespaces.
func (w *world) openedBy() map[string]int {
	w.node.mu.Lock()
	defer w.node.mu.Unlock()
	counts := map[string]int{}
	for _, pod := range w.opened {
		namespace, _, _ := strings.Cut(pod, "/")
		counts[namespace]++
	}
	return counts
}

func TestLogsAreBoundedBySessionNamespaceAndInTotal(t *testing.T) {
	bubble(t, func(_ *testing.T, w *world) {
		one := w.turn("a", "one", maxSessionLogs+1)
		w.subscribe(one)
		w.show(one)
		w.expect(maxSessionLogs, maxSessionLogs)
		one.Status.ToolCalls[0].State = v1alpha1.ToolCallStateSucceeded
		w.show(one)
		more := 1
		if w.openedBy()["a"] == maxSessionLogs {
			more = 0 // the call that has ended was the one that waited
		}
		w.expect(maxSessionLogs+more, maxSessionLogs)
		for i := range 5 {
			turn := w.turn("a", fmt.Sprint("more-", i), maxSessionLogs)
			w.subscribe(turn)
			w.show(turn)
		}
		w.expect(maxNamespaceLogs+more, maxNamespaceLogs)
		for i := range 5 {
			for j := range 2 {
				turn := w.turn(fmt.Sprint("b-", i), fmt.Sprint(j), maxSessionLogs)
				w.subscribe(turn)
				w.show(turn)
			}
		}
		w.expect(maxLogs+more, maxLogs)
	})
}

// A tenant whose tools run for hours does not keep others out.
func TestLogsTakeTurnsWhileOthersWait(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var long *v1alpha1.Turn
		for i := range 4 {
			for j := range 2 {
				long = w.turn(fmt.Sprint("long-", i), fmt.Sprint(j), maxSessionLogs)
				w.subscribe(long)
				w.show(long)
			}
		}
		w.write(podOf(long, "1-0"), "one\n")
		<-time.After(10 * turnTime)
		w.expect(maxLogs, maxLogs)
		late := w.turn("late", "t", 1)
		w.subscribe(late)
		w.show(late)
		w.write(podOf(late, "1-0"), "here\n")
		<-time.After(turnTime)
		w.write(podOf(long, "1-0"), "two\n")
		<-time.After(10 * turnTime)
		if w.text(late, "1-0") != "here\n" || w.text(long, "1-0") != "one\ntwo\n" {
			t.Errorf("the output is %q and %q", w.text(late, "1-0"), w.text(long, "1-0"))
		}
	})
}

// One tenant with more logs than it may have does not make others read theirs again.
func TestATenantAboveItsCeilingDisturbsNoOther(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		for i := range 3 {
			turn := w.turn("greedy", fmt.Sprint(i), maxSessionLogs)
			w.subscribe(turn)
			w.show(turn)
		}
		modest := w.turn("modest", "t", 1)
		w.subscribe(modest)
		w.show(modest)
		<-time.After(10 * turnTime)
		if opened := w.openedBy(); opened["modest"] != 1 || opened["greedy"] <= 3*maxSessionLogs {
			t.Errorf("logs were opened %v times", opened)
		}
	})
}

// Each of the many calls of a Session is shown.
func TestTheCallsOfASessionTakeTurns(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		turn := w.turn("ns", "t", 3*maxSessionLogs)
		w.subscribe(turn)
		w.show(turn)
		for _, call := range turn.Status.ToolCalls {
			w.write(podOf(turn, call.ID), "here\n")
		}
		<-time.After(3 * turnTime)
		for _, call := range turn.Status.ToolCalls {
			if w.text(turn, call.ID) != "here\n" {
				t.Errorf("call %s is not shown", call.ID)
			}
		}
		w.expect(w.openedBy()["ns"], maxSessionLogs)
	})
}

// One tenant that writes all the time leaves bytes to another one.
func TestBytesAreDividedBetweenNamespaces(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var loud []*v1alpha1.Turn
		for i := range 2 {
			turn := w.turn("loud", fmt.Sprint(i), maxSessionLogs)
			for _, call := range turn.Status.ToolCalls {
				w.write(podOf(turn, call.ID), strings.Repeat("x", maxRead))
			}
			loud = append(loud, turn)
			w.subscribe(turn)
			w.show(turn)
		}
		quiet := w.turn("quiet", "t", 1)
		w.subscribe(quiet)
		w.show(quiet)
		<-time.After(500 * time.Millisecond)
		w.write(podOf(quiet, "1-0"), "here\n")
		<-time.After(2 * deltaEvery)
		if w.text(quiet, "1-0") != "here\n" {
			t.Error("the quiet tenant waits")
		}
		sum := 0
		for _, turn := range loud {
			for _, o := range w.outputs(turn) {
				sum += len(o.Data.Delta)
			}
		}
		if most := burstBytes + bytesPerSecond*7/10; sum > most || sum < burstBytes {
			t.Errorf("%d bytes were passed on in 700 ms", sum)
		}
	})
}
