package config

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
)

// maxMCPServers is the maximum number of MCPServers of a Session.
const maxMCPServers = 32

// readServers reads the MCPServers that the merged layers name.
func (r *Resolved) readServers(ctx context.Context, source Source) error {
	r.MCPServers = map[string]*v1alpha1.MCPServer{}
	for i, name := range r.Effective.MCPServers {
		if i == maxMCPServers {
			break
		}
		server, err := source.MCPServer(ctx, name)
		if err != nil {
			return err
		}
		if server != nil {
			r.MCPServers[name] = server
		}
	}
	return nil
}

// addServerProblems adds why MCPServers cannot be used. Missing ones come before those that are not ready.
func (r *Resolved) addServerProblems(missing bool, all *Problems) {
	var names []string
	for _, name := range r.Effective.MCPServers {
		server := r.MCPServers[name]
		switch {
		case server == nil && missing:
			names = append(names, strconv.Quote(name))
		case server != nil && !missing && presence(server.Status.Conditions) != Usable:
			all.Add(v1alpha1.ReasonMCPServerNotReady,
				fmt.Sprintf("MCPServer %q is not ready%s", name, whyNotReady(server.Status.Conditions)))
		case server != nil && !missing && !definition.Discovered(server):
			all.Add(v1alpha1.ReasonMCPServerNotReady, fmt.Sprintf(
				"MCPServer %q is not ready: its url or headers have changed, and its tools have not been discovered since.",
				name))
		}
	}
	if n := len(r.Effective.MCPServers); n > maxMCPServers && missing {
		all.Add(v1alpha1.ReasonTooManyMCPServers, fmt.Sprintf(
			"The layers name %d MCPServers; at most %d can be used. Remove some from mcpServers.", n, maxMCPServers))
		return
	}
	if len(names) > 0 {
		all.Add(v1alpha1.ReasonMCPServerNotFound, fmt.Sprintf(
			"These MCPServers do not exist: %s. Create them, or remove them from mcpServers.", strings.Join(names, ", ")))
	}
}

// serverBlocker returns the first MCPServer whose tools are not known, because it is gone or its server was never
// reached: a Turn must not go on as if there were no such tools. One that is not ready now, but was, does not block.
func (r *Resolved) serverBlocker() *Blocker {
	for _, name := range r.Effective.MCPServers {
		server := r.MCPServers[name]
		switch {
		case server == nil:
			return &Blocker{
				Dependency: DependencyMCPServer, State: DependencyDeleted,
				Remedy: fmt.Sprintf("Create MCPServer %q, or remove it from mcpServers; then create another Turn.", name),
			}
		case server.Status.LastDiscoveryTime == nil:
			return &Blocker{
				Dependency: DependencyMCPServer, State: DependencyNotReady,
				Remedy: fmt.Sprintf("See the condition Ready of MCPServer %q, then create another Turn.", name),
			}
		}
	}
	return nil
}

// whyNotReady ends the sentence on an object that is not ready: it repeats its condition.
func whyNotReady(conditions []metav1.Condition) string {
	ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Message == "" {
		return seeItsCondition
	}
	return fmt.Sprintf(" (%s). %s", ready.Reason, ready.Message)
}
