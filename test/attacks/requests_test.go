package attacks_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	server "github.com/capstan-dev/capstan/internal/controller/streaming"
	"github.com/capstan-dev/capstan/internal/runtime/inspect"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	remembered "github.com/capstan-dev/capstan/internal/runtime/memory"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/record/memory"
	"github.com/capstan-dev/capstan/internal/runtime/sessionfs"
	"github.com/capstan-dev/capstan/internal/runtime/sessionimage"
	"github.com/capstan-dev/capstan/internal/runtime/stored"
)

// office is an API server with a user in each of two namespaces, and what their Sessions have.
type office struct {
	files map[string]*sessionfs.FS
	store record.Store
}

// Create implements TokenReviewInterface: the token of the user of a namespace is its name.
func (office) Create(
	_ context.Context, r *authenticationv1.TokenReview, _ metav1.CreateOptions,
) (*authenticationv1.TokenReview, error) {
	known := r.Spec.Token == attacker || r.Spec.Token == bystander
	r.Status = authenticationv1.TokenReviewStatus{
		Authenticated: known, Audiences: r.Spec.Audiences, User: authenticationv1.UserInfo{Username: r.Spec.Token},
	}
	return r, nil
}

type rights struct{}

// Create implements SubjectAccessReviewInterface: a user may do everything in its namespace but decide about calls.
func (rights) Create(
	_ context.Context, r *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions,
) (*authorizationv1.SubjectAccessReview, error) {
	of := r.Spec.ResourceAttributes
	r.Status.Allowed = of.Namespace == r.Spec.User && of.Resource == "sessions" && of.Subresource != "calls"
	return r, nil
}

// Session implements Sessions.
func (o office) Session(_ context.Context, namespace, name string) (*v1alpha1.Session, []*v1alpha1.Turn, error) {
	if name != "s" || o.files[namespace] == nil {
		return nil, nil, nil
	}
	s := &v1alpha1.Session{}
	s.Namespace, s.Name, s.UID = namespace, name, types.UID("uid-"+namespace)
	return s, nil, nil
}

// Files implements Resources.
func (o office) Files(_ context.Context, s *v1alpha1.Session, _ bool) (*sessionfs.FS, error) {
	return o.files[s.Namespace], nil
}

// Stored implements Resources.
func (o office) Stored(s *v1alpha1.Session) *stored.Services {
	return stored.Of(o.store, record.Session{Namespace: s.Namespace, Name: s.Name, UID: s.UID})
}

// Memories implements Resources.
func (o office) Memories(s *v1alpha1.Session) *remembered.Memories {
	return remembered.Of(o.store, record.Session{Namespace: s.Namespace, Name: s.Name, UID: s.UID})
}

// Images implements Resources.
func (o office) Images(_ context.Context, s *v1alpha1.Session, _ bool) (*sessionimage.Images, error) {
	return sessionimage.Of(o.store, record.Session{Namespace: s.Namespace, Name: s.Name, UID: s.UID}), nil
}

// Inspect implements Resources.
func (office) Inspect(_ context.Context, s *v1alpha1.Session) (*inspect.Context, error) {
	prompt := strings.Repeat("x", 64<<10)
	if s.Namespace == bystander {
		prompt = tokenSecret
	}
	return &inspect.Context{Session: s, SystemPrompt: prompt}, nil
}

// Calls implements Resources.
func (office) Calls(context.Context, *v1alpha1.Session, *v1alpha1.Turn) ([]journal.PlannedCall, error) {
	return nil, errors.New(success)
}

// endless is a body without an end.
type endless struct{}

// Read implements io.Reader.
func (endless) Read(p []byte) (int, error) { return len(p), nil }

// door is the manager's server for Sessions.
type door struct{ *httptest.Server }

// knock sends a request with a token, and returns the answer, or the error.
func (d door) knock(ctx context.Context, token, method, path string, body io.Reader) string {
	request, err := http.NewRequestWithContext(ctx, method, d.URL+path, body)
	if err != nil {
		return refused + err.Error()
	}
	if token != "" {
		request.Header.Set("Authorization", token)
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return refused + err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return refused + err.Error()
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return fmt.Sprintf("%s%d %s", refused, response.StatusCode, raw)
	}
	return string(raw)
}

// requests are requests to the manager's server for Sessions: by strangers, for other tenants, and too large ones.
func requests(t *testing.T) subject {
	store := record.New(memory.New(), record.Options{})
	o := office{store: store, files: map[string]*sessionfs.FS{
		attacker:  filesIn(store, attacker, map[string]string{"/a.txt": "mine", "/locked.txt": "rules"}),
		bystander: filesIn(store, bystander, map[string]string{"/a.txt": tokenSecret}),
	}}
	handler := &server.Handler{
		Authenticator: server.NewAuthenticator(server.Authenticator{Tokens: o, Clock: time.Now}),
		Authorizer:    server.NewAuthorizer(server.Authorizer{Reviews: rights{}}),
		Sessions:      o, Resources: o, Requests: server.NewRequests(), Clock: time.Now, Log: logr.Discard(),
	}
	mux := http.NewServeMux()
	handler.Register(mux)
	d := door{httptest.NewServer(mux)}
	t.Cleanup(d.Close)
	return subject{
		name: "Requests about Sessions", classes: d.classes(),
		other: func(ctx context.Context) error {
			seen := d.knock(ctx, "Bearer "+bystander, http.MethodGet, sessionOf(bystander)+"files/a.txt", nil)
			if seen != tokenSecret {
				return errors.New(seen)
			}
			return nil
		},
		after: func(t *testing.T) {
			for path, want := range map[string]string{"/a.txt": "mine", "/locked.txt": "rules"} {
				if f, err := o.files[attacker].Read(t.Context(), path); err != nil || f == nil || f.Content != want {
					t.Errorf("%s is %+v, %v", path, f, err)
				}
			}
			if f, err := o.files[bystander].Read(t.Context(), "/a.txt"); err != nil || f == nil || f.Content != tokenSecret {
				t.Errorf("the file of another tenant is %+v, %v", f, err)
			}
		},
	}
}

// sessionOf is the path of the Session of a namespace.
func sessionOf(namespace string) string { return "/v1/namespaces/" + namespace + "/sessions/s/" }

// sent is a request of the attacker, or with a header of its own.
type sent struct {
	name, header, method, path string
	body                       func() io.Reader
}

func (d door) class(name string, all ...sent) class {
	c := class{name: name, refused: true}
	for _, s := range all {
		c.attempts = append(c.attempts, attempt{name: s.name, run: func(ctx context.Context) string {
			var body io.Reader
			if s.body != nil {
				body = s.body()
			}
			header := s.header
			if header == "" {
				header = "Bearer " + attacker
			}
			return d.knock(ctx, header, s.method, s.path, body)
		}})
	}
	return c
}

func text(s string) func() io.Reader { return func() io.Reader { return strings.NewReader(s) } }

func (d door) classes() []class {
	const get, put, del, post = http.MethodGet, http.MethodPut, http.MethodDelete, http.MethodPost
	mine, theirs := sessionOf(attacker), sessionOf(bystander)
	around := mine + "files/../../../" + bystander + "/sessions/s/files/a.txt"
	return []class{
		d.class("callers",
			sent{"no valid token", "Bearer forged", get, mine + "files/a.txt", nil},
			sent{"a token of 17 KiB", "Bearer " + strings.Repeat("x", 17<<10), get, mine + "files/a.txt", nil},
			sent{"a name and a password", "Basic YTph", get, mine + "files/a.txt", nil},
			sent{"a token in the address", "Bearer forged", get, mine + "files/a.txt?token=" + attacker, nil},
			sent{"a body of a stranger", "Bearer forged", put, mine + "files/a.txt", func() io.Reader { return endless{} }},
		),
		d.class("what another tenant has",
			sent{"a file, read", "", get, theirs + "files/a.txt", nil},
			sent{"a file, written", "", put, theirs + "files/a.txt", text("x")},
			sent{"a file, deleted", "", del, theirs + "files/a.txt", nil},
			sent{"the input of a model", "", get, theirs + "inspect", nil},
			sent{"a path out of the own Session", "", get, around, nil},
		),
		d.class("what another tenant stores",
			sent{"the list", "", get, theirs + "storage", nil},
			sent{"the list of a service", "", get, theirs + "storage/values", nil},
			sent{"a value", "", get, theirs + "storage/values/token", nil},
			sent{"a value, written", "", put, mine + "storage/values/token", text("x")},
			sent{"a value of a service that does not exist", "", get, mine + "storage/files/a.txt", nil},
		),
		d.class("what the model of another tenant remembers",
			sent{"the list", "", get, theirs + "memory", nil},
			sent{"a memory", "", get, theirs + "memory/mem-0000000000000000", nil},
			sent{"a memory, forgotten", "", del, theirs + "memory/mem-0000000000000000", nil},
			sent{"a memory, written", "", put, mine + "memory/mem-0000000000000000", text("x")},
			sent{"a path for an id", "", get, mine + "memory/..%2f..%2f..%2f" + bystander + "%2fsessions%2fs%2fmemory", nil},
		),
		d.class("the images of another tenant",
			sent{"the list", "", get, theirs + "images", nil},
			sent{"an image", "", get, theirs + "images/" + imageID, nil},
			sent{"an image, stored", "", post, theirs + "images", text("\x89PNG\r\n\x1a\n")},
			sent{"an image, deleted", "", del, theirs + "images/" + imageID, nil},
			sent{"a path for an id", "", get, mine + "images/..%2f..%2f..%2f" + bystander + "%2fsessions%2fs%2fimages", nil},
		),
		d.class("what is no image",
			sent{"a page", "", post, mine + "images?filename=a.png", text("<script>alert(1)</script>")},
			sent{"a path for a filename", "", post, mine + "images?filename=..%2f..%2fa", text("\x89PNG\r\n\x1a\n")},
			sent{"a control sequence in a filename", "", post, mine + "images?filename=%1b%5d0", text("GIF89a")},
			sent{"an image without an end", "", post, mine + "images", func() io.Reader { return endless{} }},
		),
		d.class("calls without the verb approve",
			sent{"shown", "", get, mine + "calls", nil},
			sent{"of another tenant", "", get, theirs + "calls", nil},
			sent{"decided", "", post, mine + "calls", text(`{"decision":"Approve"}`)},
			sent{"decided by a method of files", "", put, mine + "calls", text(`{"decision":"Approve"}`)},
		),
		d.class("paths",
			sent{"dots", "", get, mine + "files/%2e%2e/%2e%2e/etc/passwd", nil},
			sent{"an escaped slash", "", get, mine + "files/..%2f..%2fetc%2fpasswd", nil},
			sent{"a NUL", "", put, mine + "files/a%00", text("x")},
			sent{"a long name", "", put, mine + "files/" + strings.Repeat("n", 300), text("x")},
			sent{"many names", "", put, mine + "files/" + strings.Repeat("a/", 40) + "b", text("x")},
		),
		d.class("files that cannot be changed",
			sent{"a read-only one, written", "", put, mine + "files/locked.txt", text("x")},
			sent{"a read-only one, deleted", "", del, mine + "files/locked.txt", nil},
			sent{"the root", "", del, mine + "files/?recursive=true", nil},
			sent{"a path below a file", "", put, mine + "files/a.txt/b", text("x")},
			sent{"the root, written", "", put, mine + "files/workspace", text("x")},
		),
		d.class("bodies",
			sent{"one byte too many", "", put, mine + "files/b", text(strings.Repeat("x", record.MaxValueBytes+1))},
			sent{"without an end", "", put, mine + "files/b", func() io.Reader { return endless{} }},
			sent{"of 64 MiB", "", put, mine + "files/b", text(strings.Repeat("x", 64<<20))},
			sent{"of a request that has none", "", get, mine + "inspect", text("x")},
			sent{"of a deletion, without an end", "", del, mine + "files/b", func() io.Reader { return endless{} }},
		),
		{name: "many at once", attempts: []attempt{{
			name: "200 requests for the input of a model", run: d.crowd, want: "some of them",
		}}},
	}
}

// crowd sends many requests at once, and returns how they have ended.
func (d door) crowd(ctx context.Context) string {
	var all sync.WaitGroup
	var mu sync.Mutex
	served := 0
	for range 200 {
		all.Go(func() {
			seen := d.knock(ctx, "Bearer "+attacker, http.MethodGet, sessionOf(attacker)+"inspect", nil)
			if strings.HasPrefix(seen, refused) {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			served++
		})
	}
	all.Wait()
	if served == 0 {
		return refused + "none of them was served"
	}
	return "some of them were served"
}
