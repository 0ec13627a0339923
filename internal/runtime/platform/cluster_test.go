package platform

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

// cluster is an API server with objects by their paths below the namespace, such as sessions/demo.
type cluster struct {
	mu      sync.Mutex
	objects map[string]map[string]any
	// requests are method and path, with the query of some.
	requests []string
	// intercept answers a request in place of the server, if it returns true.
	intercept func(w http.ResponseWriter, r *http.Request) bool
	// opened gets each watch, which has an event when watched does.
	opened, watched chan struct{}

	environment map[string]string
}

// secretToken is the signature of the token.
const secretToken = "signature-that-no-text-shows"

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{objects: map[string]map[string]any{}, opened: make(chan struct{}, 8), watched: make(chan struct{}, 8)}
	server := httptest.NewTLSServer(c)
	t.Cleanup(server.Close)
	address, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"system:serviceaccount:team:bot"}`))
	write := func(name string, content []byte) string {
		path := filepath.Join(directory, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	c.environment = map[string]string{
		"KUBERNETES_SERVICE_HOST": address.Hostname(), "KUBERNETES_SERVICE_PORT": address.Port(),
		result.EnvTokenFile: write("token", []byte("e30."+claims+"."+secretToken+"\n")),
		result.EnvCAFile: write("ca.crt", pem.EncodeToMemory(&pem.Block{
			Type: "CERTIFICATE", Bytes: server.Certificate().Raw,
		})),
		result.EnvSession: "own", result.EnvTurn: "own-1", result.EnvIdempotencyKey: "key-1",
	}
	c.put("sessions/own", nil)
	c.put("turns/own-1", nil)
	return c
}

// put stores an object with a spec and a status.
func (c *cluster) put(path string, spec map[string]any, status ...map[string]any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kind, name, _ := strings.Cut(path, "/")
	o := map[string]any{
		"kind": kind, "spec": spec,
		"metadata": map[string]any{
			"name": name, "uid": "uid-" + name, "resourceVersion": "1",
			"creationTimestamp": fmt.Sprintf("2030-01-01T00:00:%02dZ", len(c.objects)),
		},
	}
	if len(status) > 0 {
		o["status"] = status[0]
	}
	c.objects[path] = o
}

// annotate sets an annotation of an object.
func (c *cluster) annotate(path, key, value string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.objects[path]["metadata"].(map[string]any)["annotations"] = map[string]any{key: value}
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	path := strings.TrimPrefix(r.URL.Path, "/apis/capstan.dev/v1alpha1/namespaces/team/")
	c.requests = append(c.requests, r.Method+" "+path)
	intercept := c.intercept
	c.mu.Unlock()
	switch {
	case r.Header.Get("Authorization") == "" || !strings.HasSuffix(r.Header.Get("Authorization"), secretToken):
		status(w, http.StatusUnauthorized, "no token")
	case intercept != nil && intercept(w, r):
	case r.URL.Query().Get("watch") != "":
		c.watch(w, r)
	default:
		c.serve(w, r, path)
	}
}

// watch responds when a test says so.
func (c *cluster) watch(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	c.opened <- struct{}{}
	select {
	case <-c.watched:
		fmt.Fprintln(w, `{"type":"MODIFIED","object":{}}`)
	case <-r.Context().Done():
	}
}

func (c *cluster) serve(w http.ResponseWriter, r *http.Request, path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var body map[string]any
	raw, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(raw, &body)
	found := c.objects[path]
	switch {
	case r.Method == http.MethodPost:
		created := path + "/" + body["metadata"].(map[string]any)["name"].(string)
		if c.objects[created] != nil {
			status(w, http.StatusConflict, "already exists")
			return
		}
		c.objects[created] = body
		respond(w, body)
	case strings.Contains(r.Header.Get("Accept"), "as=Table"):
		respond(w, c.table(path, r.URL.Query()))
	case found == nil:
		status(w, http.StatusNotFound, path+" not found")
	case r.Method == http.MethodPatch:
		for _, part := range []string{"spec", "metadata"} {
			change, _ := body[part].(map[string]any)
			if part == "metadata" && change != nil {
				found["metadata"].(map[string]any)["labels"] = change["labels"]
			} else if change != nil {
				found["spec"] = change
			}
		}
		respond(w, found)
	default:
		respond(w, found)
	}
}

// table is a page of a list as the API server shows it. The mark of the next page is the path of the last object.
func (c *cluster) table(kind string, query url.Values) map[string]any {
	rows, last := []any{}, ""
	limit, _ := strconv.Atoi(query.Get("limit"))
	next := map[string]any{}
	for _, path := range slices.Sorted(maps.Keys(c.objects)) {
		o := c.objects[path]
		if !strings.HasPrefix(path, kind+"/") || path <= query.Get("continue") {
			continue
		}
		if len(rows) == limit {
			next["continue"] = last
			break
		}
		last = path
		spec, _ := o["spec"].(map[string]any)
		state, _ := o["status"].(map[string]any)
		session, _ := spec["sessionRef"].(map[string]any)
		rows = append(rows, map[string]any{
			"cells":  []any{strings.TrimPrefix(path, kind+"/"), session["name"], state["phase"], spec["lifecycle"]},
			"object": map[string]any{"metadata": o["metadata"]},
		})
	}
	return map[string]any{
		"columnDefinitions": []any{
			map[string]any{"name": "Name"},
			map[string]any{"name": "Session"},
			map[string]any{"name": "Phase"},
			map[string]any{"name": "Lifecycle"},
		},
		"rows": rows, "metadata": next,
	}
}

func respond(w http.ResponseWriter, value any) {
	_ = json.NewEncoder(w).Encode(value)
}

func status(w http.ResponseWriter, code int, message string) {
	w.WriteHeader(code)
	respond(w, map[string]any{"kind": "Status", "code": code, "message": message})
}

// call runs a tool and returns its result, or its error with a mark.
func (c *cluster) call(t *testing.T, tool, arguments string) string {
	t.Helper()
	environment := map[string]string{result.EnvTool: tool}
	for name, value := range c.environment {
		environment[name] = value
	}
	var stdout, stderr bytes.Buffer
	exit := Main(t.Context(), func(name string) string { return environment[name] }, strings.NewReader(arguments), &stdout,
		&stderr)
	for _, text := range []string{stdout.String(), stderr.String()} {
		if strings.Contains(text, secretToken) {
			t.Errorf("%s shows the token: %s", tool, text)
		}
	}
	if (exit == 0) != (stderr.Len() == 0) {
		t.Errorf("exit code %d with %q", exit, stderr.String())
	}
	if exit != 0 {
		return "error: " + strings.TrimSpace(stderr.String())
	}
	return stdout.String()
}

// sent are the requests that change something.
func (c *cluster) sent() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.requests), func(r string) bool { return strings.HasPrefix(r, "GET ") })
}
