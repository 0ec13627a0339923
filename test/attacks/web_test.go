package attacks_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/markdown"
	"github.com/capstan-dev/capstan/internal/runtime/tool/builtin"
	"github.com/capstan-dev/capstan/internal/runtime/tool/inputschema"
	"github.com/capstan-dev/capstan/internal/testing/site"
)

// fetchTimeout is how long a request may take here. The product gives a page 30 s, and a webhook the timeout of its
// hook.
const fetchTimeout = time.Second

// builtinCall carries out a call of a built-in tool, as the manager does: with arguments that satisfy its schema.
func builtinCall(ctx context.Context, t *testing.T, capability, name string, call builtin.Call) string {
	d := builtin.Definitions(capability).Find(name)
	if d == nil {
		t.Errorf("the capability %s has no tool %s", capability, name)
		return ""
	}
	if _, schema := d.Offer(); schema != nil {
		if err := inputschema.NewValidator().Validate(schema, call.Arguments); err != nil {
			return refused + err.Error()
		}
	}
	planned := v1alpha1.ToolCall{ID: "1-0", Attempt: 1}
	d.Pin(&planned)
	call.Now = time.Date(2031, 5, 4, 12, 0, 0, 0, time.UTC)
	outcome, defect := builtin.Run(ctx, d, planned, call)
	switch {
	case defect != nil:
		t.Errorf("%s %.300s has the defect %v", name, call.Arguments, defect)
		return defect.Error()
	case outcome.State != v1alpha1.ToolCallStateSucceeded:
		return refused + outcome.Error
	default:
		return *outcome.Result
	}
}

// network is a hostile server, an internal one that nothing may reach, and a good one of another tenant.
type network struct {
	hostile, good *site.Site
	// internal is at another address of this machine, and intruders counts its requests.
	internal  *httptest.Server
	intruders atomic.Int64
	// handler of the hostile server, by path.
	handlers sync.Map
	roots    *x509.CertPool
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	n := &network{roots: x509.NewCertPool()}
	n.hostile = site.New(t, func(w http.ResponseWriter, r *http.Request) {
		if h, ok := n.handlers.Load(r.URL.Path); ok {
			h.(http.HandlerFunc)(w, r)
			return
		}
		http.NotFound(w, r)
	})
	n.good = site.New(t, site.Fine)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.2:0")
	must(t, err)
	n.internal = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n.intruders.Add(1)
		fmt.Fprint(w, internalPage)
	}))
	n.internal.Listener.Close()
	n.internal.Listener = l
	n.internal.TLS = &tls.Config{Certificates: n.hostile.TLS.Certificates}
	n.internal.StartTLS()
	t.Cleanup(n.internal.Close)
	n.roots.AddCert(n.hostile.Certificate())
	return n
}

// serve has the hostile server use a handler, and returns the path for it.
func (n *network) serve(name string, h http.HandlerFunc) string {
	path := "/" + strings.ReplaceAll(name, " ", "-")
	n.handlers.Store(path, h)
	return path
}

// egress is the client of the manager. It reaches the addresses of the hostile and of the good server alone.
func (n *network) egress(resolver egress.Resolver) *egress.Client {
	return egress.New(egress.Options{
		Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, Roots: n.roots, Resolver: resolver,
		ConnectTimeout: fetchTimeout, HeaderTimeout: fetchTimeout,
	})
}

// ports replaces INSIDE by the host and port of the internal server, and PORT by the port of the hostile one.
func (n *network) ports(text string) string {
	return strings.NewReplacer("INSIDE", n.internal.Listener.Addr().String(), "PORT",
		strings.TrimPrefix(n.hostile.URL, "https://127.0.0.1:")).Replace(text)
}

// untouched checks that the internal server has received nothing.
func (n *network) untouched(t *testing.T) {
	if count := n.intruders.Load(); count != 0 {
		t.Errorf("the internal server has received %d requests", count)
	}
}

// turning resolves each name to the next of some answers, as a name that is rebound does.
type turning struct{ answers [][]string }

// LookupNetIP implements egress.Resolver.
func (r *turning) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	next := r.answers[0]
	if len(r.answers) > 1 {
		r.answers = r.answers[1:]
	}
	var all []netip.Addr
	for _, address := range next {
		all = append(all, netip.MustParseAddr(address))
	}
	return all, nil
}

// fetch calls web_fetch for a namespace.
func fetch(ctx context.Context, t *testing.T, client *egress.Client, namespace, address string) string {
	return builtinCall(ctx, t, "web_fetch", "web_fetch", builtin.Call{
		Namespace: namespace,
		Arguments: fmt.Sprintf(`{"url":%q}`, address),
		Services: builtin.Services{
			Web: builtin.FetchFunc(func(ctx context.Context, r egress.Request) (*egress.Response, error) {
				r.Timeout = fetchTimeout
				return client.Do(ctx, r)
			}),
		},
	})
}

// responses are attempts of the hostile server, of which each is what a request to it gets.
type responses []struct {
	name string
	h    http.HandlerFunc
}

// pages are calls of web_fetch, to hostile servers and to where nothing may go.
func pages(t *testing.T) subject {
	n := newNetwork(t)
	client := n.egress(nil)
	get := func(name string, refused bool, all responses) class {
		c := class{name: name, refused: refused}
		for _, a := range all {
			path := n.serve(name+" "+a.name, a.h)
			c.attempts = append(c.attempts, attempt{name: a.name, run: func(ctx context.Context) string {
				return fetch(ctx, t, client, attacker, n.hostile.URL+path)
			}})
		}
		return c
	}
	to := func(name string, all ...string) class {
		c := class{name: name, refused: true}
		for _, address := range all {
			c.attempts = append(c.attempts, attempt{name: address, run: func(ctx context.Context) string {
				strict := egress.New(egress.Options{Resolver: &turning{[][]string{{"127.0.0.1"}}}})
				return fetch(ctx, t, strict, attacker, n.ports(address))
			}})
		}
		return c
	}
	classes := append(addresses(to), names127(t, n))
	classes = append(classes, get("redirects to where nothing may go", true, n.redirects()),
		get("other redirects", false, n.oddRedirects()), get("compression", true, compressed()),
		get("bodies", false, bodies("text/html")), get("headers", false, headers()),
		get("beginnings of responses", true, beginnings()), get("formats that expand", false, formats()),
		get("character sets", false, charsets()))
	return subject{
		name: "Pages of the web", classes: classes, after: n.untouched,
		other: func(ctx context.Context) error {
			seen := fetch(ctx, t, n.good.Egress(), bystander, n.good.URL)
			if !strings.Contains(seen, "fine") {
				return errors.New(seen)
			}
			return nil
		},
	}
}

// addresses are notations of addresses that no page has.
func addresses(to func(string, ...string) class) []class {
	return []class{
		to("loopback as numbers", "https://127.0.0.1:PORT", "https://2130706433:PORT", "https://0x7f000001:PORT",
			"https://0177.0.0.1:PORT", "https://127.1:PORT"),
		to("loopback in IPv6", "https://[::1]:PORT", "https://[::ffff:127.0.0.1]:PORT", "https://[::ffff:7f00:1]:PORT",
			"https://[64:ff9b::7f00:1]:PORT", "https://[::]:PORT"),
		to("loopback by name", "https://localhost:PORT", "https://0.0.0.0:PORT", "https://LOCALHOST.:PORT",
			"https://127.0.0.1.nip.io:PORT", "https://\u2460\u2461\u2466.0.0.1:PORT"),
		to("metadata of clouds", "https://169.254.169.254/latest/meta-data", "https://[fd00:ec2::254]/",
			"https://168.63.129.16/", "https://100.100.100.200/", "https://[::ffff:a9fe:a9fe]/"),
		to("metadata, otherwise written", "https://metadata.google.internal/", "https://2852039166/",
			"https://0xa9fea9fe/", "https://[64:ff9b::a9fe:a9fe]/", "https://0251.0376.0251.0376/"),
		to("the cluster", "https://kubernetes.default.svc/", "https://10.0.0.1/", "https://172.16.0.1/",
			"https://192.168.0.1/", "https://[fe80::1%25eth0]/"),
		to("other schemes", "http://example.org/", "file:///etc/passwd", "ftp://example.org/", "gopher://example.org/",
			"unix:///run/docker.sock"),
		to("addresses that parsers read differently", "https://example.org@127.0.0.1:PORT/",
			"https://user:password@example.org/", "https://example.org\\@127.0.0.1:PORT/", "https://exa mple.org/",
			"https://example.org#@127.0.0.1:PORT/"),
		to("no addresses", "https:///etc/passwd", "//example.org/", "data:text/html,x", "javascript:alert(1)",
			"https://example.org:99999/"),
	}
}

// names127 are names whose addresses change.
func names127(t *testing.T, n *network) class {
	rebound := func(name string, answers ...[]string) attempt {
		path := n.serve("rebound "+name, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, n.ports("https://example.com:")+strings.Split(n.internal.Listener.Addr().String(), ":")[1]+
				"/", http.StatusFound)
		})
		return attempt{name: name, run: func(ctx context.Context) string {
			return fetch(ctx, t, n.egress(&turning{answers}), attacker, n.ports("https://example.com:PORT")+path)
		}}
	}
	many := make([]string, 10_000)
	for i := range many {
		many[i] = "127.0.0.2"
	}
	return class{name: "names that are rebound", refused: true, attempts: []attempt{
		rebound("to the internal server", []string{"127.0.0.2"}),
		rebound("after the first lookup, before a redirect", []string{"127.0.0.1"}, []string{"127.0.0.2"}),
		rebound("to both, the internal one first", []string{"127.0.0.2", "127.0.0.1"}, []string{"127.0.0.2"}),
		rebound("to its address in IPv6", []string{"::ffff:127.0.0.2"}),
		rebound("to thousands of addresses", many),
	}}
}

// location redirects to an address.
func location(n *network, to string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", n.ports(to))
		w.WriteHeader(http.StatusTemporaryRedirect)
	}
}

func (n *network) redirects() responses {
	return responses{
		{"to metadata", location(n, "https://169.254.169.254/latest/meta-data")},
		{"to the internal server", location(n, "https://INSIDE/")},
		{"to the internal server, in another notation", location(n, "https://[::ffff:127.0.0.2]:PORT/")},
		{"to http", location(n, "http://INSIDE/")},
		{"to a file", location(n, "file:///etc/passwd")},
	}
}

func (n *network) oddRedirects() responses {
	return responses{
		{"without an end", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path+"?"+r.URL.RawQuery+"x", http.StatusFound)
		}},
		{"in a circle", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		}},
		{"by the page", write200("text/html", n.ports(`<meta http-equiv=refresh content="0;url=https://INSIDE/"><p>x`))},
		{"by a header of browsers", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Refresh", n.ports("0;url=https://INSIDE/"))
			fmt.Fprint(w, "x")
		}},
		{"to a long address with a password", location(n, "https://u:p@INSIDE/"+strings.Repeat("x", 48<<10))},
	}
}

// write200 is a page of a type.
func write200(contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		fmt.Fprint(w, body)
	}
}

// zeros is 256 MiB of zeros, compressed.
var zeros = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	chunk := make([]byte, 1<<20)
	for range 256 {
		_, _ = w.Write(chunk) // To memory.
	}
	_ = w.Close()
	return b.Bytes()
})

// encoded is a bomb in an encoding of the content.
func encoded(header, encoding string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set(header, encoding)
		_, _ = w.Write(zeros())
	}
}

func compressed() responses {
	zeros()
	return responses{
		{"gzip", encoded("Content-Encoding", "gzip")},
		{"gzip twice", encoded("Content-Encoding", "gzip, gzip")},
		{"another encoding", encoded("Content-Encoding", "br")},
		{"a type that is compressed", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/gzip")
			_, _ = w.Write(zeros())
		}},
		{"of the transfer", raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n" +
			"4\r\n\x1f\x8b\x08\x00\r\n0\r\n\r\n")},
	}
}

// raw writes bytes instead of a response, and then the next ones again and again until the client has had enough.
func raw(first string, next ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, err = io.WriteString(conn, first)
		for err == nil && len(next) > 0 && r.Context().Err() == nil {
			_, err = io.WriteString(conn, next[0])
		}
	}
}

// dripping writes a text in pieces, and one byte more each 50 ms.
func dripping(first string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, err = io.WriteString(conn, first)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for err == nil {
			select {
			case <-r.Context().Done():
				return
			case <-tick.C:
				_, err = io.WriteString(conn, "x")
			}
		}
	}
}

func bodies(contentType string) responses {
	chunk := strings.Repeat("a", 32<<10)
	begin := "HTTP/1.1 200 OK\r\nContent-Type: " + contentType + "\r\n"
	return responses{
		{"without an end", raw(begin+"Transfer-Encoding: chunked\r\n\r\n", "8000\r\n"+chunk+"\r\n")},
		{"of a byte now and then", dripping(begin + "Content-Length: 1000000\r\n\r\n")},
		{"shorter than they claim", raw(begin + "Content-Length: 9223372036854775807\r\n\r\n" + chunk)},
		{"in chunks of a byte", raw(begin+"Transfer-Encoding: chunked\r\n\r\n", strings.Repeat("1\r\na\r\n", 1000))},
		{"with endless extensions of a chunk", raw(begin+"Transfer-Encoding: chunked\r\n\r\n1;", chunk)},
	}
}

func headers() responses {
	return responses{
		{"many", raw("HTTP/1.1 200 OK\r\n", strings.Repeat("X-A: b\r\n", 1000))},
		{"a long one", raw("HTTP/1.1 200 OK\r\nX-A: ", strings.Repeat("a", 32<<10))},
		{"of a byte now and then", dripping("HTTP/1.1 200 OK\r\nX-A: ")},
		{"with control characters", raw("HTTP/1.1 200 OK\r\nX-A: \x00\x1b]0;x\x07\r\nContent-Length: 0\r\n\r\n")},
		{"a long type", write200("text/"+strings.Repeat("y", 48<<10), "x")},
	}
}

func beginnings() responses {
	return responses{
		{"interim responses without an end", raw("", strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n", 100))},
		{"no HTTP", raw("", strings.Repeat("\x00\xff", 1000))},
		{"a status without an end", raw("HTTP/1.1 200 ", strings.Repeat("O", 32<<10))},
		{"nothing", func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-time.After(5 * fetchTimeout):
			}
		}},
		{"two responses with different lengths", raw("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n" +
			"Content-Length: 9\r\n\r\nhello")},
	}
}

func formats() responses {
	laughs := `<?xml version="1.0"?><!DOCTYPE l [<!ENTITY l0 "lol">`
	yaml := "a0: &a0 [lol]\n"
	for i := range 10 {
		laughs += fmt.Sprintf(`<!ENTITY l%d %q>`, i+1, strings.Repeat(fmt.Sprintf("&l%d;", i), 10))
		aliases := strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i), 10), ",")
		yaml += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, aliases)
	}
	laughs += `]><l>&l10;</l>`
	outside := `<!DOCTYPE x [<!ENTITY x SYSTEM "file:///etc/passwd">]><p>&x;</p>`
	return responses{
		{"XML, a billion laughs", write200("application/xml", laughs)},
		{"XHTML, a billion laughs", write200("application/xhtml+xml", laughs)},
		{"HTML with a file as an entity", write200("text/html", outside)},
		{"YAML, a billion laughs", write200("application/yaml", yaml)},
		{"JSON, nested deeply", write200("application/json", strings.Repeat(`{"a":[`, 40_000))},
	}
}

func charsets() responses {
	body := strings.Repeat("\x1b$B\x1b(B+AAA-\x0e\x0f", markdown.MaxPageBytes/16)
	return responses{
		{"utf-7", write200("text/html; charset=utf-7", body)},
		{"ISO-2022-JP", write200("text/html; charset=iso-2022-jp", body)},
		{"utf-16", write200("text/html; charset=utf-16", body)},
		{"one without a name", write200("text/html; charset="+strings.Repeat("x", 40<<10), body)},
		{"one that the page declares", write200("text/html", "<meta charset=gb18030>"+strings.Repeat("\x81\x30", 100_000))},
	}
}

// bombs are pages that make a browser, or a converter without bounds, use gigabytes or minutes.
func bombs(t *testing.T) subject {
	n := newNetwork(t)
	client := n.egress(nil)
	fill := func(part string) string { return strings.Repeat(part, markdown.MaxPageBytes/len(part)) }
	formats := strings.Builder{}
	for i := range 400 {
		formats.WriteString("<font size=" + strings.Repeat("1", i%9+1) + "><b><i><u>")
	}
	html := func(name string, all ...[2]string) class {
		c := class{name: name, most: 128 << 20}
		for _, a := range all {
			path := n.serve(name+" "+a[0], write200("text/html", a[1]))
			c.attempts = append(c.attempts, attempt{name: a[0], run: func(ctx context.Context) string {
				return fetch(ctx, t, client, attacker, n.hostile.URL+path)
			}})
		}
		return c
	}
	return subject{
		name: "Pages in HTML",
		classes: []class{
			html("nesting", [2]string{"elements", fill("<div>")},
				[2]string{"elements of all kinds", fill("<a><b><i><p><ul><li><table><tr><td><blockquote>")},
				[2]string{"quotations", strings.Repeat("<blockquote>", 1000) + fill("a<br>")},
				[2]string{"lists", fill("<ul><li>a")}, [2]string{"templates", fill("<svg><template>")}),
			html("elements that are not closed", [2]string{"formats", formats.String() + fill("<p>")},
				[2]string{"formats in the wrong order", fill("<b><i></b></i><p>")}, [2]string{"tags", fill("<")},
				[2]string{"comments", fill("<!--")}, [2]string{"end tags", fill("</p>")}),
			html("tables", [2]string{"in tables", fill("<table><tr><td>")},
				[2]string{"of many cells", "<table><tr>" + strings.Repeat("<td>a", 20000) + fill("<tr><td>b")},
				[2]string{"of wide cells", "<table>" + fill("<tr><td colspan=1000000 rowspan=1000000>b")},
				[2]string{"with large numbers", fill("<ol start=99999999><li>a</ol>")},
				[2]string{"lines in numbered lists", strings.Repeat("<ol>"+strings.Repeat("<li>a", 999)+"<li>", 6) + "<pre>" +
					fill("\n")}),
			html("attributes and links", [2]string{"many attributes", "<a " + fill("x=1 ") + ">"},
				[2]string{"many links", fill("<a href=x>y</a>")},
				[2]string{"a long address", `<a href="` + fill("x") + `">y</a>`},
				[2]string{"many images", fill("<img src=x>")},
				[2]string{"titles", fill("<title>a</title>")}),
			html("texts that grow", [2]string{"entities", fill("&CounterClockwiseContourIntegral;")},
				[2]string{"what looks like Markdown", fill("*_`[](<\n1. #")},
				[2]string{"emphasis", fill("<b>*</b><i>_</i>")}, [2]string{"code in code", fill("<code>`")},
				[2]string{"lines of code", "<pre>" + fill("```\n")}),
			html("nothing but space", [2]string{"spaces", fill(" \n\t")}, [2]string{"line breaks", fill("<br>")},
				[2]string{"headings", fill("<h1>a\n")}, [2]string{"no text at all", fill("\x00\xff")},
				[2]string{"null characters in tags", fill("<\x00a\x00>")}),
		},
		other: func(ctx context.Context) error {
			path := n.serve("good", write200("text/html", "<h1>fine</h1>"))
			if seen := fetch(ctx, t, client, bystander, n.hostile.URL+path); !strings.Contains(seen, "# fine") {
				return errors.New(seen)
			}
			return nil
		},
	}
}
