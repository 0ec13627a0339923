package discovery

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
)

const (
	// store is the name of the store with the definitions of an MCPServer, and key that of its only value.
	store = "tools"
	key   = "definitions"
	// kindDigits is the length of the hash of a value, which the index has as its kind.
	kindDigits = 32
)

// scope is the store of an MCPServer.
func scope(server *v1alpha1.MCPServer) record.Scope {
	return record.Scope{Namespace: server.Namespace, MCPServer: server.Name, UID: server.UID, Store: store}
}

// Save stores the definitions of the tools of an MCPServer. It writes nothing if they are stored already.
func Save(ctx context.Context, records record.Store, server *v1alpha1.MCPServer, c *Catalog) error {
	var value bytes.Buffer
	encoder := json.NewEncoder(&value)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(c.entries); err != nil {
		return fmt.Errorf("encoding the definitions of MCPServer %s: %w", server.Name, err)
	}
	index, err := records.List(ctx, scope(server))
	if err != nil {
		return err
	}
	hash := tool.Hash("mcp-definitions", value.String())[:kindDigits]
	known, found := index.Find(key)
	if found && known.Kind == hash {
		return nil
	}
	_, err = records.Apply(ctx, scope(server), record.Operation{
		// Each revision of the index is a step of its own, so that the outcomes of earlier ones are not kept.
		Cause:  record.Cause{Step: index.Revision + 1, Key: hash},
		Expect: map[string]int64{key: known.Revision},
		Put:    []record.Put{{Key: key, Value: value.Bytes(), Encoding: "json", Kind: hash}},
	})
	return err
}

// Load reads the texts of the tools of an MCPServer for the model, by the name of the tool. The error is
// record.ErrNotFound if there are none.
func Load(
	ctx context.Context, records record.Store, server *v1alpha1.MCPServer,
) (map[string]definition.RemoteTexts, error) {
	_, value, err := records.Get(ctx, scope(server), key)
	if err != nil {
		return nil, err
	}
	c := &Catalog{}
	if err := json.Unmarshal(value, &c.entries); err != nil {
		return nil, fmt.Errorf("decoding the definitions of MCPServer %s: %w", server.Name, err)
	}
	return c.Texts(), nil
}
