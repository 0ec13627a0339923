package definition

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/leftout"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/executors"
)

const (
	// maxNameBytes is the maximum length of the name of a tool that all model providers accept.
	maxNameBytes = 64
	// nameDigits is the length of the hash in the name of a tool that cannot have its own name.
	nameDigits = 8
)

// Remote is what the call of a tool of an MCPServer needs.
type Remote struct {
	// Server that has the tool. A cache may have left out texts of it.
	Server *v1alpha1.MCPServer
	// Tool is the name of the tool at the server, and Digest that of its definition there.
	Tool, Digest string
	// discovered is the digest of the connection that the definition comes from.
	discovered string
}

// Current reports whether the definition comes from where a call goes now. After a change of the url, the headers or
// the identity of the MCPServer it does not, until the tools are discovered again: another server may do something
// else under the name of the tool.
func (r *Remote) Current() bool {
	return r.discovered != "" && r.discovered == connectionDigest(&r.Server.Spec)
}

// RemoteTexts are the texts of a tool of an MCPServer for the model.
type RemoteTexts struct {
	// Digest of the definition at the server.
	Digest string
	// Description and InputSchema are for the model, Title for people.
	Description string
	InputSchema []byte
	Title       string
}

// RemoteName is the name that a model calls a tool of an MCPServer by: mcp_SERVER__TOOL. A name that providers do not
// accept is made acceptable, with a hash at its end so that it stays unique.
func RemoteName(server, name string) string {
	accepted := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, name)
	whole := "mcp_" + server + "__" + accepted
	if accepted == name && len(whole) <= maxNameBytes {
		return whole
	}
	hash := "_" + tool.Hash("mcp-name", name)[:nameDigits]
	return whole[:min(len(whole), maxNameBytes-len(hash))] + hash
}

// OfServer returns the definitions of the tools of an MCPServer, which must not change any more, in the order of their
// names. Their texts for the model are left out. A server can choose the name of a tool so that the model would call it
// as it calls another one: then the first one counts.
func OfServer(server *v1alpha1.MCPServer) Set {
	tools := server.Status.DiscoveredTools
	all := make(Set, 0, len(tools))
	for _, t := range tools {
		if !Selected(server.Spec.ToolFilter, t.Name) {
			continue
		}
		if d := ofServer(server, t, server.Status.DefinitionBytes/int64(len(tools))); all.Find(d.Name) == nil {
			all = append(all, d)
		}
	}
	return all
}

func ofServer(server *v1alpha1.MCPServer, t v1alpha1.MCPServerTool, size int64) *Definition {
	rule := ruleOf(server, t.Name)
	d := &Definition{
		Name:             RemoteName(server.Name, t.Name),
		Hints:            t.Hints,
		Executor:         v1alpha1.ToolExecutorMCP,
		SideEffect:       sideEffectOf(rule, t),
		Policy:           rule.Policy,
		ApprovalTimeout:  rule.ApprovalTimeout,
		ConcurrencyClass: rule.ConcurrencyClass,
		Timeout:          server.Spec.Timeout,
		Source: Source{
			Kind: KindMCPServer, Name: server.Name, UID: server.UID, Generation: server.Generation,
		},
		remote: &Remote{
			Server: server, Tool: t.Name, Digest: t.Digest, discovered: server.Status.DiscoveredConnection,
		},
		unread: max(size, 1),
	}
	d.digest = sync.OnceValue(func() string { return remoteDigest(d) })
	return d
}

// ruleOf returns the rule of an MCPServer for a tool; an empty one for none.
func ruleOf(server *v1alpha1.MCPServer, name string) v1alpha1.MCPToolRule {
	if i := slices.IndexFunc(server.Spec.Tools, func(r v1alpha1.MCPToolRule) bool { return r.Name == name }); i >= 0 {
		return server.Spec.Tools[i]
	}
	return v1alpha1.MCPToolRule{}
}

func (r *Remote) rule() v1alpha1.MCPToolRule { return ruleOf(r.Server, r.Tool) }

// sideEffectOf is the class of a tool. A server can only make it stricter.
func sideEffectOf(rule v1alpha1.MCPToolRule, t v1alpha1.MCPServerTool) v1alpha1.SideEffect {
	switch {
	case rule.SideEffect == "":
		return executors.Named(v1alpha1.ToolExecutorMCP).SideEffect
	case rule.SideEffect == v1alpha1.SideEffectPure && slices.Contains(t.Hints, v1alpha1.ToolHintDestructive):
		return v1alpha1.SideEffectAtMostOnce
	default:
		return rule.SideEffect
	}
}

// remoteDigest is the digest of the definition of a tool of an MCPServer: of what decides how its calls run, and of
// what the server has said about it, because an approval is about that as well.
func remoteDigest(d *Definition) string {
	policy := d.Policy
	if policy == "" {
		policy = v1alpha1.ToolPolicyAuto
	}
	r := d.remote
	parts := []string{"mcp", connectionDigest(&r.Server.Spec), r.Tool, r.Digest, string(d.SideEffect), string(policy)}
	if secret := d.SecretArguments(); len(secret) > 0 {
		parts = append(append(parts, "secrets"), secret...)
	}
	return tool.Hash(parts...)[:digestDigits]
}

// SetDiscovered records in the status of an MCPServer that its tools come from the server that its spec names.
func SetDiscovered(status *v1alpha1.MCPServerStatus, spec *v1alpha1.MCPServerSpec) {
	status.DiscoveredConnection = connectionDigest(spec)
}

// Discovered reports whether the tools of an MCPServer come from the server that its spec names.
func Discovered(server *v1alpha1.MCPServer) bool {
	discovered := server.Status.DiscoveredConnection
	return discovered != "" && discovered == connectionDigest(&server.Spec)
}

// connectionDigest is a hash of what decides where a request to an MCPServer goes and what it carries.
func connectionDigest(spec *v1alpha1.MCPServerSpec) string {
	if digest, ok := leftout.Note(spec.URL); ok {
		return digest
	}
	headers, err := json.Marshal(spec.Headers)
	if err != nil {
		// The API server has decoded them. An empty digest matches no planned call.
		return ""
	}
	parts := []string{"mcp-connection", spec.URL, string(headers)}
	if spec.Identity == v1alpha1.MCPIdentityAgentToken {
		parts = append(parts, string(spec.Identity))
	}
	if spec.ServiceRef != nil || spec.CABundle != nil {
		reach, err := json.Marshal(struct {
			Service  *v1alpha1.ServiceReference
			CABundle *v1alpha1.CABundleSource
		}{spec.ServiceRef, spec.CABundle})
		if err != nil {
			return ""
		}
		parts = append(parts, string(reach))
	}
	return tool.Hash(parts...)[:digestDigits]
}

// LeaveOutConnection drops the texts of a large MCPServer that only requests to it need. The digests of its definitions
// stay. Caches that keep many MCPServers use it, and read the MCPServer later.
func LeaveOutConnection(server *v1alpha1.MCPServer) {
	spec := &server.Spec
	if leftout.Is(spec.URL) || int64(len(spec.URL))+leftout.Size(spec.Headers) <= maxKeptConnection {
		return
	}
	spec.URL = leftout.Mark(0, connectionDigest(spec))
	spec.Headers = shown(spec.Headers)
}

// maxKeptConnection is the size up to which a cache keeps what only requests to an MCPServer need.
const maxKeptConnection = 2 << 10

// ConnectionLeftOut reports whether LeaveOutConnection has dropped texts of an MCPServer.
func ConnectionLeftOut(server *v1alpha1.MCPServer) bool { return leftout.Is(server.Spec.URL) }

// Selected reports whether a filter of an MCPServer selects a tool.
func Selected(filter *v1alpha1.MCPToolFilter, name string) bool {
	if filter == nil {
		return true
	}
	matches := func(p v1alpha1.MCPToolPattern) bool {
		beginning, open := strings.CutSuffix(string(p), "*")
		return name == string(p) || open && strings.HasPrefix(name, beginning)
	}
	return (len(filter.Include) == 0 || slices.ContainsFunc(filter.Include, matches)) &&
		!slices.ContainsFunc(filter.Exclude, matches)
}

// Remote returns what a call of the tool needs, if it is one of an MCPServer; nil otherwise, and for no definition.
func (d *Definition) Remote() *Remote {
	if d == nil {
		return nil
	}
	return d.remote
}

// WithTexts returns the definition of a tool of an MCPServer with its texts for the model.
func (d *Definition) WithTexts(t RemoteTexts) *Definition {
	whole := *d
	whole.Description, whole.InputSchema, whole.DisplayName, whole.unread = t.Description, t.InputSchema, t.Title, 0
	return &whole
}

// WithServer returns the definition of a tool of an MCPServer whose connection was left out, with the whole MCPServer.
func (d *Definition) WithServer(server *v1alpha1.MCPServer) *Definition {
	whole, remote := *d, *d.remote
	remote.Server = server
	whole.remote = &remote
	whole.Source.UID, whole.Source.Generation = server.UID, server.Generation
	whole.digest = sync.OnceValue(func() string { return remoteDigest(&whole) })
	return &whole
}
