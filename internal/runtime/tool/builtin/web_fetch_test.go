package builtin

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
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
	outcome, defect := Run(t.Context(), d, planned, Call{Arguments: arguments, Now: noon, Fetch: fetch})
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

// turning resolves each name to the next of some addresses, as a name that is rebound does.
type turning struct{ addresses []string }

func (r *turning) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	next := r.addresses[0]
	if len(r.addresses) > 1 {
		r.addresses = r.addresses[1:]
	}
	return []netip.Addr{netip.MustParseAddr(next)}, nil
}

func TestAnAddressThatIsNotOfTheWebIsNotReached(t *testing.T) {
	s := site.New(t, site.Fine)
	port := strings.TrimPrefix(s.URL, "https://127.0.0.1")
	for _, address := range []string{
		// Loopback, in the notations that resolvers understand.
		"https://127.0.0.1" + port, "https://localhost" + port, "https://2130706433" + port, "https://0x7f000001" + port,
		"https://0177.0.0.1" + port, "https://127.1" + port, "https://[::1]" + port, "https://[::ffff:127.0.0.1]" + port,
		"https://[::ffff:7f00:1]" + port, "https://[64:ff9b::7f00:1]" + port, "https://0.0.0.0" + port, "https://[::]" + port,
		// Metadata of clouds.
		"https://169.254.169.254/latest/meta-data", "https://[fd00:ec2::254]/", "https://168.63.129.16/",
		"https://100.100.100.200/", "https://metadata.google.internal/", "https://[::ffff:a9fe:a9fe]/",
		// The cluster.
		"https://kubernetes.default.svc/", "https://10.0.0.1/", "https://172.16.0.1/", "https://192.168.0.1/",
		"https://[fe80::1%25eth0]/", "https://[fd00::1]/",
		// What is no page of the web.
		"http://example.org/", "file:///etc/passwd", "ftp://example.org/", "gopher://example.org/", "//example.org/",
		"https://user:password@example.org/", "https://", "example.org", "https:///etc/passwd", "https://exa mple.org/",
		"unix:///run/docker.sock", "data:text/html,x", "javascript:alert(1)", "https://example.org:99999/",
	} {
		client := egress.New(egress.Options{Resolver: &turning{addresses: []string{"127.0.0.1"}}})
		outcome := fetched(t, client, nil, fmt.Sprintf("{%q:%q}", "url", address))
		if outcome.State != v1alpha1.ToolCallStateFailed || !strings.HasPrefix(outcome.Error, "The page was not read: ") {
			t.Errorf("%s: it ends with %+v", address, outcome)
		}
	}
	// A name that is rebound between a check and a connection, or between two requests.
	for _, addresses := range [][]string{{"127.0.0.1", "93.184.216.34"}, {"169.254.169.254"}, {"::ffff:10.0.0.1"}} {
		client := egress.New(egress.Options{Resolver: &turning{addresses: addresses}})
		outcome := fetched(t, client, nil, `{"url":"https://rebound.example`+port+`/"}`)
		if outcome.State != v1alpha1.ToolCallStateFailed || !strings.Contains(outcome.Error, "no allowed address") {
			t.Errorf("%v: it ends with %+v", addresses, outcome)
		}
	}
	if s.Requests() != 0 {
		t.Errorf("the server of this machine received %d requests", s.Requests())
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
