package discovery_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/mcp"
	"github.com/capstan-dev/capstan/internal/runtime/mcp/discovery"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/record/memory"
	"github.com/capstan-dev/capstan/internal/runtime/tool/inputschema"
	"github.com/capstan-dev/capstan/internal/testing/site"
)

func serverAt(url string) *v1alpha1.MCPServer {
	return &v1alpha1.MCPServer{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "search", UID: "uid-1"},
		Spec:       v1alpha1.MCPServerSpec{URL: url},
	}
}

func listed(name, schema string) mcp.Tool {
	return mcp.Tool{Name: name, Description: "Does it.", InputSchema: json.RawMessage(schema)}
}

const object = `{"type":"object"}`

// Rules: MCP-01.
func TestToolsThatCannotBeUsedAreLeftOut(t *testing.T) {
	c, err := discovery.Select([]mcp.Tool{
		listed("b", object), listed("a", object), listed("a", `{"type":"object","title":"again"}`), listed("", object),
		listed("new\nline", object), listed(strings.Repeat("n", 129), object), listed("list", `{"type":"array"}`),
		listed("large", `{"type":"object","title":"`+strings.Repeat("x", inputschema.MaxBytes)+`"}`),
		listed("outside", `{"type":"object","$ref":"https://example.org/schema"}`), listed("out", object),
		listed("control\u009b31m", object), listed("direction\u202e", object), listed("invisible\u200b", object),
	}, &v1alpha1.MCPToolFilter{Exclude: []v1alpha1.MCPToolPattern{"out"}}, nil, inputschema.NewValidator())
	if err != nil {
		t.Fatal(err)
	}
	tools := c.Tools()
	if len(tools) != 2 || tools[0].Name != "a" || tools[1].Name != "b" || tools[0].Digest == tools[1].Digest {
		t.Errorf("the tools are %+v", tools)
	}
	said := strings.Join(c.LeftOut, "; ")
	for _, want := range []string{`"a" (its name is not unique)`, `"" (its name is invalid)`, "and 5 more"} {
		if !strings.Contains(said, want) {
			t.Errorf("it reports %s, without %s", said, want)
		}
	}
}

func TestTheToolsOfAServerAreBounded(t *testing.T) {
	var many, large []mcp.Tool
	for i := range discovery.MaxTools + 1 {
		many = append(many, listed(fmt.Sprint("t", i), object))
	}
	schema := `{"type":"object","title":"` + strings.Repeat("x", 30_000) + `"}`
	for i := range 10 {
		large = append(large, listed(fmt.Sprint("t", i), schema))
	}
	for name, tools := range map[string][]mcp.Tool{"many": many, "large": large} {
		_, err := discovery.Select(tools, nil, nil, inputschema.NewValidator())
		if !errors.Is(err, discovery.ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := discovery.Select(many[1:], nil, nil, inputschema.NewValidator()); err != nil {
		t.Error(err)
	}
	long := listed("long", object)
	long.Description = strings.Repeat("ä", 4096)
	c, err := discovery.Select([]mcp.Tool{long}, nil, nil, inputschema.NewValidator())
	if err != nil || len(c.Texts()["long"].Description) > 4096 {
		t.Errorf("the description has %d bytes, %v", len(c.Texts()["long"].Description), err)
	}
}

// Rules: MCP-02.
func TestAnotherDefinitionHasAnotherDigest(t *testing.T) {
	digest := func(tool mcp.Tool) string {
		c, err := discovery.Select([]mcp.Tool{tool}, nil, nil, inputschema.NewValidator())
		if err != nil || len(c.Tools()) != 1 {
			t.Fatal(c, err)
		}
		return c.Tools()[0].Digest
	}
	base := listed("a", object)
	changed, title, hints := base, base, base
	changed.Description, title.Title = "Does it, and sends all files along.", "A"
	hints.Hints = []v1alpha1.ToolHint{v1alpha1.ToolHintDestructive}
	seen := map[string]bool{digest(base): true}
	for _, other := range []mcp.Tool{changed, title, hints, listed("a", `{"type":"object","title":"a"}`)} {
		if seen[digest(other)] {
			t.Errorf("%+v has the digest of another definition", other)
		}
		seen[digest(other)] = true
	}
	if digest(base) != digest(listed("a", object)) {
		t.Error("the same definition has another digest")
	}
}

// writes counts the writes of a backend.
type writes struct {
	record.Objects
	count int
}

func (w *writes) WriteIndex(ctx context.Context, scope record.Scope, index record.Stored) error {
	w.count++
	return w.Objects.WriteIndex(ctx, scope, index)
}

func TestDefinitionsAreStoredOnceForEachChange(t *testing.T) {
	backend := &writes{Objects: memory.New()}
	records := record.New(backend, record.Options{})
	server := serverAt("https://example.org")
	if _, err := discovery.Load(t.Context(), records, server); !errors.Is(err, record.ErrNotFound) {
		t.Fatalf("before the first discovery: %v", err)
	}
	for round := range 40 {
		// Large, so that it is not a part of the index.
		tool := listed("a", `{"type":"object","title":"`+strings.Repeat("x", 8000)+fmt.Sprint(round/2)+`"}`)
		c, err := discovery.Select([]mcp.Tool{tool}, nil, nil, inputschema.NewValidator())
		if err != nil {
			t.Fatal(err)
		}
		if err := discovery.Save(t.Context(), records, server, c); err != nil {
			t.Fatal(err)
		}
		texts, err := discovery.Load(t.Context(), records, server)
		if err != nil || texts["a"].Digest != c.Tools()[0].Digest ||
			string(texts["a"].InputSchema) != string(tool.InputSchema) {
			t.Fatalf("the texts are %+v, %v", texts, err)
		}
	}
	if backend.count != 20 {
		t.Errorf("%d writes for 20 changes", backend.count)
	}
}

func TestADiscoveryReportsWhatToDo(t *testing.T) {
	good := site.NewMCP(t, site.Stateless, site.Echo("a"))
	secret := &corev1.Secret{Data: map[string][]byte{"token": []byte("Bearer s3cret-token")}}
	bound := secret.DeepCopy()
	bound.Annotations = map[string]string{v1alpha1.AnnotationAllowedHosts: "elsewhere.example.org"}
	refusing := site.New(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, "no: ", r.Header.Get("Authorization"))
	})
	echoing := site.New(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var message struct{ ID json.RawMessage }
		_ = json.NewDecoder(r.Body).Decode(&message)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-1,"message":"bad token %s"}}`, message.ID,
			r.Header.Get("Authorization"))
	})
	for name, c := range map[string]struct {
		url     string
		secret  *corev1.Secret
		reason  string
		says    string
		asked   bool
		without string
	}{
		"fine":             {good.URL, secret, v1alpha1.ReasonReady, "1 tools of the server can be used.", true, ""},
		"a missing Secret": {good.URL, nil, v1alpha1.ReasonSecretMissing, "kubectl create secret", false, ""},
		"a missing key":    {good.URL, &corev1.Secret{}, v1alpha1.ReasonSecretKeyMissing, "has no key", false, ""},
		"another host":     {good.URL, bound, v1alpha1.ReasonSecretUnusable, "is bound to hosts", false, ""},
		"a refusal":        {refusing.URL, secret, v1alpha1.ReasonDiscoveryFailed, "status 401", true, "s3cret"},
		"an error":         {echoing.URL, secret, v1alpha1.ReasonDiscoveryFailed, "bad token", true, "s3cret"},
		"no server": {
			"https://127.0.0.1:1", secret, v1alpha1.ReasonDiscoveryFailed, "failed to connect", true, "",
		},
		"a private address": {
			"https://10.0.0.1", secret, v1alpha1.ReasonDiscoveryFailed, "has no allowed address", true, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := serverAt(c.url)
			server.Spec.Headers = []v1alpha1.HTTPHeader{
				{Name: "Authorization", SecretKeyRef: &v1alpha1.SecretKeyReference{Name: "key", Key: "token"}},
			}
			d := discovery.Discoverer{
				Egress: good.Egress(), Schemas: inputschema.NewValidator(),
				Secrets: func(context.Context, string, string) (*corev1.Secret, error) {
					if c.secret == nil {
						return nil, site.NotFound("key")
					}
					return c.secret, nil
				},
			}
			f, err := d.Discover(t.Context(), server)
			if err != nil || f.Reason != c.reason || !strings.Contains(f.Message, c.says) || f.Asked != c.asked ||
				(f.Catalog != nil) != (c.reason == v1alpha1.ReasonReady) {
				t.Errorf("the finding is %+v, %v", f, err)
			}
			if c.without != "" && strings.Contains(f.Message, c.without) {
				t.Errorf("the message has a part of the Secret: %s", f.Message)
			}
		})
	}
}
