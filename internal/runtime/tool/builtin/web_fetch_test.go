package builtin

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/markdown"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/testing/site"
)

// fetched carries out a call of web_fetch with a client.
func fetched(t *testing.T, client *egress.Client, permits func(*url.URL) bool, arguments string) tool.Outcome {
	t.Helper()
	d := definitionOf(t, "web_fetch", "web_fetch")
	planned := v1alpha1.ToolCall{ID: "1-0", Attempt: 1}
	d.Pin(&planned)
	fetch := func(ctx context.Context, request egress.Request) (*egress.Response, error) {
		request.Permits = permits
		return client.Do(ctx, request)
	}
	outcome, defect := Run(
		t.Context(),
		d,
		planned,
		Call{Arguments: arguments, Now: noon, Services: Services{Web: FetchFunc(fetch)}},
	)
	if defect != nil {
		t.Fatal(defect)
	}
	return outcome
}

// writing is a server that responds with a body of a type.
func writing(contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		fmt.Fprint(w, body)
	}
}

func TestAPageOfTheWebIsRead(t *testing.T) {
	for name, test := range map[string]struct {
		handler   http.HandlerFunc
		arguments string
		want      []string
	}{
		"HTML": {
			handler: writing("text/html; charset=utf-8", `<title>Home</title><h1>Hi</h1><a href="/x">there</a>`),
			want: []string{
				`"content_type":"text/html","title":"Home","content":"# Hi\n\n[there](https://127.0.0.1:`, `/x)"}`,
			},
		},
		"HTML as it is": {
			handler: writing("text/html", "<h1>Hi</h1>"), arguments: `,"format":"raw"`,
			want: []string{`"content":"<h1>Hi</h1>"}`},
		},
		"in another character set": {
			handler: writing("text/html; charset=iso-8859-1", "<p>caf\xe9"), want: []string{`"content":"café"`},
		},
		"in a character set that the page declares": {
			handler: writing("text/html", "<meta charset=windows-1251><p>\xcf\xf0\xe8\xe2\xe5\xf2"),
			want:    []string{`"content":"Привет"`},
		},
		"text": {
			handler: writing("text/plain", "a <b>"),
			want:    []string{`"content_type":"text/plain","content":"a <b>"}`},
		},
		"JSON": {
			handler: writing("application/problem+json", `{"a":1}`),
			want:    []string{`"content":"{\"a\":1}"`},
		},
		"not quite UTF-8": {handler: writing("text/plain", "a\xffb"), want: []string{"a\uFFFDb"}},
		"a long text": {
			handler: writing("text/plain", strings.Repeat("\x01\"", markdown.MaxPageBytes)),
			want:    []string{`"truncated":true}`},
		},
		"a long page": {
			handler: writing("text/html", strings.Repeat("<p>a</p>", markdown.MaxPageBytes/8)),
			want:    []string{`"truncated":true}`, `a\n\na`},
		},
		"behind a redirect": {
			handler: func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/" {
					http.Redirect(w, r, "/there", http.StatusFound)
					return
				}
				writing("text/html", "<a href=x>y</a>")(w, r)
			},
			want: []string{`/there","content_type"`, `[y](https://127.0.0.1:`},
		},
		"of a server with long headers": {
			handler: func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/" {
					http.Redirect(w, r, "/"+strings.Repeat("x", 48<<10), http.StatusFound)
					return
				}
				writing("text/"+strings.Repeat("y", 48<<10), "content")(w, r)
			},
			want: []string{`xx","content_type":"text/y`, `yy","content":"content"}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := site.New(t, test.handler)
			outcome := fetched(t, s.Egress(), nil, `{"url":"`+s.URL+`/"`+test.arguments+`}`)
			if outcome.State != v1alpha1.ToolCallStateSucceeded {
				t.Fatalf("it ends with %+v", outcome)
			}
			for _, part := range test.want {
				if !strings.Contains(*outcome.Result, part) {
					t.Errorf("the result %.300q does not contain %q", *outcome.Result, part)
				}
			}
			if len(*outcome.Result) > tool.MaxResultBytes || !strings.HasSuffix(*outcome.Result, "}") {
				t.Errorf("the result has %d bytes", len(*outcome.Result))
			}
		})
	}
}

func TestAPageOfTheWebThatCannotBeRead(t *testing.T) {
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"an image": {writing("image/png", "\x89PNG"), `The page is not a text: its Content-Type is "image/png".`},
		"no type":  {writing("nonsense;;", "x"), "The page is not a text"},
		"an error": {http.NotFound, "The server responded with status 404 (Not Found)."},
		"compressed": {
			func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Encoding", "gzip")
				writing("text/html", "\x1f\x8b")(w, r)
			}, `in the encoding "gzip"`,
		},
		"a redirect without end": {
			func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, r.URL.Path+"x", http.StatusFound)
			}, "more than 5 times",
		},
		"a redirect to http": {
			func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "http://example.org/", http.StatusFound)
			}, "The page was not read",
		},
		"a redirect to metadata": {
			func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "https://169.254.169.254/latest/meta-data", http.StatusTemporaryRedirect)
			}, "invalid redirect target",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := site.New(t, test.handler)
			outcome := fetched(t, s.Egress(), nil, `{"url":"`+s.URL+`/"}`)
			if outcome.State != v1alpha1.ToolCallStateFailed || !strings.Contains(outcome.Error, test.want) {
				t.Errorf("it ends with %+v, want %q", outcome, test.want)
			}
		})
	}
}

func TestANetworkAccessListRestrictsPages(t *testing.T) {
	s := site.New(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/out" {
			http.Redirect(w, r, "/secret", http.StatusFound)
			return
		}
		site.Fine(w, r)
	})
	permits := func(u *url.URL) bool { return u.Path != "/secret" }
	for path, want := range map[string]v1alpha1.ToolCallState{
		"/page": v1alpha1.ToolCallStateSucceeded, "/secret": v1alpha1.ToolCallStateFailed,
		"/out": v1alpha1.ToolCallStateFailed,
	} {
		if outcome := fetched(t, s.Egress(), permits, `{"url":"`+s.URL+path+`"}`); outcome.State != want {
			t.Errorf("%s: it ends with %+v, want %s", path, outcome, want)
		}
	}
	if s.Requests() != 2 {
		t.Errorf("the server received %d requests, want those of /page and /out", s.Requests())
	}
}
