package mcpserver

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
	"github.com/capstan-dev/capstan/internal/runtime/mcp/discovery"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
)

const (
	// minInterval is the least time between two discoveries of one MCPServer, whatever causes them.
	minInterval = 30 * time.Second
	// defaultInterval is the time between two discoveries of an MCPServer without refreshInterval.
	defaultInterval = 10 * time.Minute
	// patience is how many intervals an MCPServer stays Ready without a discovery that succeeds.
	patience = 3
)

// attempt is the last discovery of an MCPServer by this process.
type attempt struct {
	// uid and generation are those of the MCPServer.
	uid        types.UID
	generation int64
	// at is its time, and finding its result.
	at      time.Time
	finding discovery.Finding
	// pause is the time until the next one, if this one has failed.
	pause time.Duration
	// noticed reports whether the server has said since then that its tools have changed, and vain is how often in a row
	// it has said so when they had not.
	noticed bool
	vain    int
}

// noticePause is the least time from a discovery to one that a notice causes: the longer, the more often a server has
// sent notices in vain, up to the interval without notices.
func (a attempt) noticePause(server *v1alpha1.MCPServer) time.Duration {
	pause := minInterval
	for range min(a.vain, 10) {
		pause *= 2
	}
	return max(min(pause, interval(server)), minInterval)
}

// after returns an attempt that has followed another one of the same MCPServer.
func (a attempt) after(last attempt, server *v1alpha1.MCPServer) attempt {
	if !last.noticed || !last.of(server) || a.finding.Catalog == nil {
		return a
	}
	if slices.EqualFunc(a.finding.Catalog.Tools(), server.Status.DiscoveredTools, sameTool) {
		a.vain = last.vain + 1
	}
	return a
}

// sameTool reports whether a tool has the same definition.
func sameTool(a, b v1alpha1.MCPServerTool) bool { return a.Name == b.Name && a.Digest == b.Digest }

// of reports whether an attempt is about an MCPServer as it is now.
func (a attempt) of(server *v1alpha1.MCPServer) bool {
	return a.uid == server.UID && a.generation == server.Generation
}

// interval is the time between two discoveries that succeed.
func interval(server *v1alpha1.MCPServer) time.Duration {
	if d := server.Spec.RefreshInterval; d != nil && d.Duration > 0 {
		return d.Duration
	}
	return defaultInterval
}

// regular is the time from a discovery that has succeeded to the next.
func regular(server *v1alpha1.MCPServer, last attempt) time.Duration {
	if last.noticed {
		return last.noticePause(server)
	}
	return interval(server)
}

// wait is how long the next discovery of an MCPServer has to wait; 0 if it is due. last is the last one by this
// process.
func wait(server *v1alpha1.MCPServer, last attempt, now time.Time) time.Duration {
	var next time.Time
	notBefore := func(t time.Time) {
		if t.After(next) {
			next = t
		}
	}
	failed := last.of(server) && last.finding.Reason != v1alpha1.ReasonReady
	if succeeded := server.Status.LastDiscoveryTime; succeeded != nil {
		notBefore(succeeded.Add(minInterval))
		current := server.Status.ObservedGeneration == server.Generation && definition.Discovered(server) &&
			meta.IsStatusConditionTrue(server.Status.Conditions, v1alpha1.ConditionReady)
		if current && !failed {
			notBefore(succeeded.Add(regular(server, last)))
		}
	}
	if last.uid == server.UID && last.finding.Asked {
		notBefore(last.at.Add(minInterval))
	}
	switch {
	case failed:
		notBefore(last.at.Add(last.pause))
	case last.of(server):
		notBefore(last.at.Add(regular(server, last)))
	}
	return max(next.Sub(now), 0)
}

// apply returns the status of an MCPServer after an attempt.
func apply(server *v1alpha1.MCPServer, last attempt) v1alpha1.MCPServerStatus {
	next := server.Status.DeepCopy()
	f, at := last.finding, metav1.NewTime(last.at.Truncate(time.Second))
	if f.Reason != v1alpha1.ReasonReady && keepsReady(server, last.at) {
		return *next
	}
	if f.Reason == v1alpha1.ReasonReady {
		next.DiscoveredTools, next.DefinitionBytes = f.Catalog.Tools(), f.Catalog.Bytes()
		next.ProtocolVersion, next.LastDiscoveryTime = f.ProtocolVersion, &at
		definition.SetDiscovered(next, &server.Spec)
	}
	condition.SetReady(&next.Conditions, last.generation, at, f.Reason, f.Message)
	next.ObservedGeneration = last.generation
	return *next
}

// keepsReady reports whether an MCPServer stays Ready when a discovery fails: its tools are known, and were seen not
// long ago.
func keepsReady(server *v1alpha1.MCPServer, now time.Time) bool {
	succeeded := server.Status.LastDiscoveryTime
	return succeeded != nil && server.Status.ObservedGeneration == server.Generation &&
		meta.IsStatusConditionTrue(server.Status.Conditions, v1alpha1.ConditionReady) &&
		now.Before(succeeded.Add(patience*interval(server)))
}
