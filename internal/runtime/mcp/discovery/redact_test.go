package discovery_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/mcp"
	"github.com/capstan-dev/capstan/internal/runtime/mcp/discovery"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/record/memory"
	"github.com/capstan-dev/capstan/internal/runtime/tool/inputschema"
	"github.com/capstan-dev/capstan/internal/testing/site"
)

// echoing serves tools whose names, texts and schemas have the Authorization header of the request.
func echoing(g site.Generation) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		header := r.Header.Get("Authorization")
		_, token, _ := strings.Cut(header, " ")
		schema, err := json.Marshal(map[string]any{
			"type": "object", "description": header,
			"properties": map[string]any{token: map[string]any{"enum": []string{token}}},
		})
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		echo, named := site.Echo("echo"), site.Echo("read-"+token)
		echo.Title = token
		// The end of the description is cut, within the value.
		echo.Description = header + strings.Repeat(" ", 4090-len(header)) + token
		echo.InputSchema = json.RawMessage(schema)
		echo.Annotations = &sdk.ToolAnnotations{Title: header}
		array := site.Echo("list")
		array.InputSchema = json.RawMessage(`{"type":"object","$ref":"https://example.org/` + token + `"}`)
		long := site.Echo(strings.Repeat("n", 60) + token + strings.Repeat("n", 64))
		site.MCPHandler(g, echo, named, array, long).ServeHTTP(w, r)
	}
}

// Rules: MCP-01.
func TestWhatAServerEchoesOfItsSecretIsNotKept(t *testing.T) {
	at := site.New(t, echoing(site.Stateless))
	server := serverAt(at.URL)
	server.Spec.Headers = []v1alpha1.HTTPHeader{
		{Name: "Authorization", SecretKeyRef: &v1alpha1.SecretKeyReference{Name: "key", Key: "token"}},
	}
	d := discovery.Discoverer{
		Egress: at.Egress(), Schemas: inputschema.NewValidator(),
		Secrets: func(context.Context, string, string) (*corev1.Secret, error) {
			return &corev1.Secret{Data: map[string][]byte{"token": []byte("Bearer s3cret-to&ken")}}, nil
		},
	}
	f, err := d.Discover(t.Context(), server)
	if err != nil || f.Reason != v1alpha1.ReasonReady {
		t.Fatalf("the finding is %+v, %v", f, err)
	}
	records := record.New(memory.New(), record.Options{})
	if err := discovery.Save(t.Context(), records, server, f.Catalog); err != nil {
		t.Fatal(err)
	}
	texts, err := discovery.Load(t.Context(), records, server)
	if err != nil || len(texts) != 1 || !strings.HasPrefix(texts["echo"].Description, "[redacted] ") {
		t.Fatalf("the texts are %+v, %v", texts, err)
	}
	shown := []string{f.Message, texts["echo"].Title, texts["echo"].Description, string(texts["echo"].InputSchema)}
	for _, tool := range f.Catalog.Tools() {
		shown = append(shown, tool.Name)
	}
	for _, text := range shown {
		if strings.Contains(text, "s3cr") {
			t.Errorf("a part of the Secret is in %s", text)
		}
	}
	if !strings.Contains(f.Message, `"read-[redacted]" (its name has the value of a Secret)`) {
		t.Errorf("the message is %s", f.Message)
	}
}

// The size of a definition is that which the server has sent: none is searched for values that is too large for a tool.
func TestADefinitionThatIsTooLargeIsNotUsedAfterASecretIsRemoved(t *testing.T) {
	value := strings.Repeat("s3cret", 40)
	secret := http.Header{"Authorization": {"Bearer " + value}}
	large := listed("large", `{"type":"object","title":"`+strings.Repeat(value+" ", inputschema.MaxBytes/len(value))+`"}`)
	long := listed(strings.Repeat("n", 100)+value, object)
	c, err := discovery.Select([]mcp.Tool{large, long}, nil, secret, inputschema.NewValidator())
	if err != nil || len(c.Tools()) != 0 {
		t.Fatalf("%v, or a tool is used", err)
	}
	if want := `"large" (its schema has more than 32768 bytes); "` + strings.Repeat("n", 61); !strings.HasPrefix(
		strings.Join(c.LeftOut, "; "), want) || !strings.HasSuffix(c.LeftOut[1], "(its name is invalid)") {
		t.Errorf("it reports %q", c.LeftOut)
	}
}
