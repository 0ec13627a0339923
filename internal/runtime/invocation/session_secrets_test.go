package invocation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/credential"
	"github.com/capstan-dev/capstan/internal/runtime/sessionsecret"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/internal/testing/site"
)

// crmKey is the value of the secret crm-key of the Session.
const crmKey = "hunter2-hunter2"

// notes is a server that keeps what it is sent, and returns it to who asks without a body.
type notes struct{ kept string }

func (n *notes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if body, err := io.ReadAll(r.Body); err == nil && len(body) > 2 {
		n.kept = string(body)
	}
	fmt.Fprint(w, n.kept)
}

// counted reads the secrets of the Session, for the host of a site, and counts the reads.
func counted(s *site.Site, reads *int) credential.Reader {
	secret := builder.SessionSecrets(session.Namespace, session.Name, session.UID,
		map[string]string{"crm-key": crmKey}, strings.TrimPrefix(s.URL, "https://"))
	return func(_ context.Context, _, name string) (*corev1.Secret, error) {
		*reads++
		if name != sessionsecret.Name(session.UID) {
			return nil, site.NotFound(name)
		}
		return secret, nil
	}
}

// A server may return a value that an earlier call has sent, or that a server of another protocol has got.
//
// Rules: KV-02.
func TestAValueThatAnEarlierCallHasSentIsHidden(t *testing.T) {
	kept := &notes{}
	find := site.Echo("echo")
	find.Run = func(context.Context, json.RawMessage) *sdk.CallToolResult {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: kept.kept}}}
	}
	ofMCP := site.MCPHandler(site.Stateless, find)
	s := site.New(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/mcp" {
			ofMCP.ServeHTTP(w, r)
			return
		}
		kept.ServeHTTP(w, r)
	})
	b := newBench(t).reaching(s)
	reads := 0
	b.Secrets = counted(s, &reads)
	turn, create := requesting(s, v1alpha1.SideEffectPure)
	create.Definition.Spec().HTTP.SecretArguments = []v1alpha1.SecretArgument{"/body"}
	create.Arguments, create.HideSecrets = `{"body":"secret://crm-key"}`, true
	mustBe(t, b, turn, create, `{"body":"[redacted]"}`)
	if !strings.Contains(kept.kept, crmKey) || reads != 1 {
		t.Fatalf("the server has got %s, after %d reads", kept.kept, reads)
	}
	_, get := requesting(s, v1alpha1.SideEffectPure)
	get.HideSecrets = true
	mustBe(t, b, turn, get, `{"body":"[redacted]"}`)

	server := offering(s, v1alpha1.SideEffectPure)
	_, call := acting(v1alpha1.ToolExecutorMCP, v1alpha1.SideEffectPure)
	call.Name = "mcp_search__echo"
	d := definition.OfServer(server).Find(call.Name)
	d.Pin(&call)
	mustBe(t, b, turn, Call{Call: call, Definition: d, HideSecrets: true, Attempt: NewAttempt(&Line{})},
		`{"body":"[redacted]"}`)
	if reads != 3 {
		t.Errorf("3 calls have read %d times", reads)
	}
	// Where no tool may be sent secrets, none is read.
	_, get = requesting(s, v1alpha1.SideEffectPure)
	mustBe(t, b, turn, get, kept.kept)
	if reads != 3 {
		t.Errorf("a call of a Session whose tools permit no secrets has read %d times", reads-3)
	}
}

// mustBe carries a call out, whose result must be this one.
func mustBe(t *testing.T, b *bench, turn turnstate.Turn, call Call, want string) {
	t.Helper()
	end, err := b.CarryOut(t.Context(), turn, call)
	if err != nil || end.Outcome.Result == nil || *end.Outcome.Result != want {
		t.Fatalf("it ends with %+v, %v", end.Outcome, err)
	}
}

// Rules: KV-02.
func TestACallWithoutSecretsGoesWhereverItsServerRedirectsIt(t *testing.T) {
	other := site.New(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, crmKey) })
	s := site.New(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	})
	b := newBench(t).reaching(s)
	reads := 0
	b.Secrets = counted(s, &reads)
	turn, call := requesting(s, v1alpha1.SideEffectPure)
	call.HideSecrets = true
	mustBe(t, b, turn, call, "[redacted]")
}

// Rules: KV-02.
func TestACallWithoutReferencesDoesNotNeedSecrets(t *testing.T) {
	broken := errors.New("the API server is away")
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "s", errors.New("no"))
	for name, test := range map[string]struct {
		read error
		err  error
	}{
		"without a Secret":     {read: site.NotFound("s")},
		"without a permission": {read: forbidden},
		// Whether a value must be hidden is not known: the call starts later.
		"while it cannot be read": {broken, broken},
	} {
		t.Run(name, func(t *testing.T) {
			s := site.New(t, site.Fine)
			b := newBench(t).reaching(s)
			b.Secrets = func(context.Context, string, string) (*corev1.Secret, error) { return nil, test.read }
			turn, call := requesting(s, v1alpha1.SideEffectAtMostOnce)
			call.HideSecrets = true
			end, err := b.CarryOut(t.Context(), turn, call)
			if !errors.Is(err, test.err) {
				t.Fatalf("it ends with %+v, %v", end, err)
			}
			if err == nil && end.Outcome.State != v1alpha1.ToolCallStateSucceeded {
				t.Errorf("it ends with %+v", end.Outcome)
			}
			if err != nil && (b.entries() != 0 || s.Requests() != 0) {
				t.Errorf("%d entries, %d requests", b.entries(), s.Requests())
			}
		})
	}
}
