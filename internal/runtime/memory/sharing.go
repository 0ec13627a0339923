package memory

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/record"
)

// Capability is the name of the built-in capability.
const Capability = "memory"

// Share is with which other Sessions of its namespace a Session shares its memory.
type Share string

const (
	// ShareAgent shares it with the Sessions of the same Agent.
	ShareAgent Share = "Agent"
	// ShareNamespace shares it with all Sessions of the namespace.
	ShareNamespace Share = "Namespace"
)

// Config is the configuration of the capability.
type Config struct {
	// Share is whom the Session shares its memory with; empty for no other one.
	Share Share `json:"share"`
	// Session is the name of the Session whose memory is used; empty for the own one.
	Session string `json:"session"`
}

// Schema is the JSON Schema of the configuration.
const Schema = `{
  "type": "object",
  "properties": {
    "share": {"type": "string", "enum": ["Agent", "Namespace"]},
    "session": {"type": "string", "minLength": 1, "maxLength": 253}
  },
  "maxProperties": 1,
  "additionalProperties": false
}`

// ParseConfig reads a configuration that satisfies the Schema.
func ParseConfig(config []byte) (Config, error) {
	var read Config
	if err := json.Unmarshal(config, &read); err != nil {
		return Config{}, fmt.Errorf("reading the configuration of %s: %w", Capability, err)
	}
	return read, nil
}

// Host reads the Sessions that share their memory.
type Host interface {
	// Session returns a Session as it is now; nil if it does not exist.
	Session(ctx context.Context, namespace, name string) (*v1alpha1.Session, error)
}

// Reader is a Session that may use the memory of another one.
type Reader struct {
	record.Session
	// Agent of the Session; empty for none.
	Agent string
}

// Shared returns the memory of the Session that a configuration names, for another Session of its namespace, or the own
// memory if the configuration shares it. The error has a *record.ExplainedError if that Session does not share its
// memory.
func Shared(ctx context.Context, host Host, store record.Store, with Reader, c Config) (*Memories, error) {
	if c.Session == "" || c.Session == with.Name {
		own := Of(store, with.Session)
		own.shared = true
		return own, nil
	}
	if host == nil {
		return nil, record.Explainf("This runtime has no memories of other sessions.")
	}
	session, err := host.Session(ctx, with.Namespace, c.Session)
	if err != nil {
		return nil, fmt.Errorf("looking for the Session that shares its memory: %w", err)
	}
	if session == nil || session.DeletionTimestamp != nil || !shares(session, with.Agent) {
		return nil, record.Explainf("The session %q does not exist, or does not share its memory with this one.",
			c.Session)
	}
	m := Of(store, record.Session{Namespace: session.Namespace, Name: session.Name, UID: session.UID})
	m.shared = true
	return m, nil
}

// shares reports whether a Session shares its memory with Sessions of an Agent. Only its own spec counts: a layer that
// other Sessions have too would share the memories of them all.
func shares(session *v1alpha1.Session, agent string) bool {
	for _, reference := range session.Spec.Capabilities {
		if reference.Builtin != Capability || reference.Config == nil {
			continue
		}
		c, err := ParseConfig(reference.Config.Raw)
		if err != nil {
			continue
		}
		own := session.Spec.AgentRef
		return c.Share == ShareNamespace || c.Share == ShareAgent && own != nil && own.Name == agent
	}
	return false
}
