package attacks_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/platform"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

// agentServer is an API server for an agent that manages others. It counts the requests that leave the kinds of the
// tools.
type agentServer struct {
	*httptest.Server
	environment map[string]string
	elsewhere   atomic.Int32
	// answer responds to what is not an agent; nil for an error.
	answer http.HandlerFunc
}

func newAgentServer(t *testing.T, answer http.HandlerFunc) *agentServer {
	t.Helper()
	s := &agentServer{answer: answer}
	s.Server = httptest.NewTLSServer(s)
	t.Cleanup(s.Close)
	address, err := url.Parse(s.URL)
	must(t, err)
	directory := t.TempDir()
	token, ca := filepath.Join(directory, "token"), filepath.Join(directory, "ca.crt")
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"system:serviceaccount:` + attacker + `:bot"}`))
	must(t, os.WriteFile(token, []byte("e30."+claims+"."+tokenSecret), 0o600))
	must(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
	s.environment = map[string]string{
		"KUBERNETES_SERVICE_HOST": address.Hostname(), "KUBERNETES_SERVICE_PORT": address.Port(),
		result.EnvTokenFile: token, result.EnvCAFile: ca, result.EnvSession: "own", result.EnvTurn: "own-1",
		result.EnvIdempotencyKey: "key",
	}
	return s
}

// ServeHTTP implements http.Handler.
func (s *agentServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	managed := []string{"agents", "harnesses", "sessions", "turns"}
	below := "/apis/capstan.dev/v1alpha1/namespaces/" + attacker + "/"
	resource, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, below), "/")
	switch {
	case !strings.HasPrefix(r.URL.Path, below) || !slices.Contains(managed, resource):
		s.elsewhere.Add(1)
		fmt.Fprint(w, `{"spec":{"secret":"`+success+`"}}`)
	case strings.HasSuffix(r.URL.Path, "/agents/plain"):
		fmt.Fprint(w, `{"metadata":{"name":"plain"},"spec":{"systemPrompt":"Be brief."}}`)
	case s.answer != nil:
		s.answer(w, r)
	default:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"message":"not found"}`)
	}
}

// call runs a tool, and returns what the model sees.
func (s *agentServer) call(ctx context.Context, tool, arguments string) string {
	environment := func(name string) string {
		if name == result.EnvTool {
			return tool
		}
		return s.environment[name]
	}
	var stdout, stderr bytes.Buffer
	if platform.Main(ctx, environment, strings.NewReader(arguments), &stdout, &stderr) != 0 {
		return refused + stderr.String()
	}
	return stdout.String()
}

// platformTools are arguments of models, and responses of a server, for the program with the token of a ServiceAccount.
func platformTools(t *testing.T) subject {
	honest := newAgentServer(t, nil)
	names := func(tool, argument string) []attempt {
		var all []attempt
		for _, name := range []string{
			"../../../../../../api/v1/namespaces/" + attacker + "/secrets/key", "plain/../../secrets/key", "plain?watch=true",
			"plain%2f..%2fsecrets", "plain\x00\r\nHost: evil.example",
		} {
			encoded, err := json.Marshal(name)
			must(t, err)
			all = append(all, attempt{name: name, want: "is not the name", run: func(ctx context.Context) string {
				return honest.call(ctx, tool, fmt.Sprintf(argument, encoded))
			}})
		}
		return all
	}
	deep := strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000)
	creation := func(name, arguments string) attempt {
		return attempt{name: name, run: func(ctx context.Context) string {
			return honest.call(ctx, platform.CreateTool, arguments)
		}}
	}
	return subject{
		name: "Tools that act as a ServiceAccount",
		classes: []class{
			{name: "names of objects", refused: true, attempts: names(platform.GetTool, `{"kind": "agent", "name": %s}`)},
			{name: "names of Sessions", refused: true, attempts: names(platform.SendTool, `{"session": %s, "message": "x"}`)},
			{name: "kinds and arguments", refused: true, attempts: []attempt{
				creation("a kind without tools", `{"kind": "secret", "spec": {}}`),
				creation("a kind that is a path", `{"kind": "../secrets", "spec": {}}`),
				creation("a deep spec", `{"kind": "agent", "spec": `+deep+`}`),
				creation("a spec without end", `{"kind": "agent", "spec": "`+strings.Repeat("x", 4<<20)+`"}`),
				creation("a spec that is a list", `{"kind": "agent", "spec": [{}]}`),
			}},
			{name: "its own Session", refused: true, attempts: []attempt{
				{name: "a message to itself", want: "is your own", run: func(ctx context.Context) string {
					return honest.call(ctx, platform.SendTool, `{"session": "own", "message": "Again."}`)
				}},
				{name: "a wait for itself", want: "is your own", run: func(ctx context.Context) string {
					return honest.call(ctx, platform.WaitTool, `{"session": "own", "timeout_seconds": 600}`)
				}},
			}},
			{name: "responses of a server", refused: true, attempts: hostileServers(t)},
		},
		other: func(ctx context.Context) error {
			seen := honest.call(ctx, platform.GetTool, `{"kind": "agent", "name": "plain"}`)
			if !strings.Contains(seen, "Be brief.") {
				return errors.New(seen)
			}
			return nil
		},
		after: func(t *testing.T) {
			if n := honest.elsewhere.Load(); n > 0 {
				t.Errorf("%d requests have left the kinds of the tools", n)
			}
		},
	}
}

// hostileServers are responses to a request for an agent.
func hostileServers(t *testing.T) []attempt {
	thief := newAgentServer(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, success, r.Header) })
	var all []attempt
	for _, response := range []struct {
		name   string
		answer http.HandlerFunc
	}{
		{"a redirect to another server", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, thief.URL+"/", http.StatusTemporaryRedirect)
		}},
		{"a body without an end", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, endless{}) }},
		{"an error that is long", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, `{"message": "%s"}`, strings.Repeat("x", 4<<20))
		}},
		{"an error that is no JSON", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, success, r.Header)
		}},
	} {
		s := newAgentServer(t, response.answer)
		all = append(all, attempt{name: response.name, run: func(ctx context.Context) string {
			return s.call(ctx, platform.GetTool, `{"kind": "agent", "name": "other"}`)
		}})
	}
	other := newAgentServer(t, nil)
	must(t, os.WriteFile(other.environment[result.EnvCAFile], anotherAuthority(t), 0o600))
	return append(all, attempt{
		name: "a server of another authority", want: "certificate", run: func(ctx context.Context) string {
			return other.call(ctx, platform.GetTool, `{"kind": "agent", "name": "other"}`)
		},
	})
}

// anotherAuthority is the certificate of an authority that has signed no server.
func anotherAuthority(t *testing.T) []byte {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}
