package inprocess_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/modelcontextprotocol/go-sdk/auth"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest/inprocess"
	sites "github.com/capstan-dev/capstan/internal/testing/site"
)

// identifying is a Session with an Agent and an MCPServer at a URL that demands tokens.
func identifying(url string) inprocess.Option {
	return inprocess.WithYAML(`
apiVersion: capstan.dev/v1alpha1
kind: Agent
metadata: {name: triage}
spec: {}
---
apiVersion: capstan.dev/v1alpha1
kind: MCPServer
metadata: {name: search}
spec: {url: "` + url + `", identity: AgentToken}
---
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: demo}
spec: {harnessRef: {name: base}, agentRef: {name: triage}, mcpServers: [{name: search}]}
`)
}

// Rules: MCP-04.
func TestAServerRecognizesTheAgentThatCalls(t *testing.T) {
	for _, g := range []sites.Generation{sites.Stateful, sites.Stateless} {
		t.Run(string(g), func(t *testing.T) {
			key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			var mu sync.Mutex
			var subjects []string
			url := ""
			verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
				claims := jwt.RegisteredClaims{}
				_, err := jwt.ParseWithClaims(token, &claims, func(*jwt.Token) (any, error) { return &key.PublicKey, nil },
					jwt.WithValidMethods([]string{"ES256"}), jwt.WithIssuer("test"), jwt.WithAudience(url))
				if err != nil {
					return nil, fmt.Errorf("%w: %w", auth.ErrInvalidToken, err)
				}
				mu.Lock()
				defer mu.Unlock()
				subjects = append(subjects, claims.Subject)
				return &auth.TokenInfo{UserID: claims.Subject, Expiration: claims.ExpiresAt.Time}, nil
			}
			server := sites.New(t, auth.RequireBearerToken(verify, nil)(sites.MCPHandler(g, sites.Echo("find"))).ServeHTTP)
			url = server.URL + "/mcp"
			runtime := start(t, append(reaching(server.Server), identifying(url), inprocess.WithIdentityKey("test", key),
				inprocess.WithSimulation(calling([]string{"mcp_search__find"}, []string{"mcp_search__find"})))...)
			turn := run(t, runtime, message("demo-1", "Go."))
			if call := turn.Status.ToolCalls[0]; call.State != v1alpha1.ToolCallStateSucceeded {
				t.Errorf("the call is %+v", call)
			}
			mu.Lock()
			defer mu.Unlock()
			of := map[string]int{}
			for _, subject := range subjects {
				of[subject]++
			}
			if of["capstan:agent:default:triage"] < 2 || of["capstan:mcpserver:default:search"] == 0 || len(of) != 2 {
				t.Errorf("the server is called by %v", of)
			}
		})
	}
}

func TestWithoutAKeyAServerThatDemandsTokensCannotBeUsed(t *testing.T) {
	server := sites.NewMCP(t, sites.Stateless, sites.Echo("find"))
	_, err := inprocess.New(t.Context(), append(reaching(server.Server), inprocess.WithYAML(base), identifying(server.URL),
		inprocess.WithSimulation(calling()))...)
	if err == nil || !strings.Contains(err.Error(), "has no keys to sign tokens") {
		t.Errorf("New = %v", err)
	}
	other, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := inprocess.New(t.Context(), inprocess.WithIdentityKey("test", other)); err == nil {
		t.Error("a key of another curve is accepted")
	}
	if _, err := inprocess.New(t.Context(), inprocess.WithIdentityKey("test", nil)); err == nil {
		t.Errorf("without a key: %v", err)
	}
}
