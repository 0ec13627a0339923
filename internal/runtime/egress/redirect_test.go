package egress

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

// redirecting redirects each request to the address in its query, with the status in its query.
func redirecting(w http.ResponseWriter, r *http.Request) {
	if to := r.URL.Query().Get("to"); to != "" {
		status, err := strconv.Atoi(r.URL.Query().Get("status"))
		if err != nil {
			status = http.StatusFound
		}
		w.Header().Set("Location", to)
		w.WriteHeader(status)
		return
	}
	fmt.Fprint(w, "arrived")
}

func TestARedirectIsFollowedAsBrowsersDo(t *testing.T) {
	for name, test := range map[string]struct {
		method, status string
		want, body     string
	}{
		"a POST that is found elsewhere":      {"POST", "302", "GET", ""},
		"a POST that moved":                   {"POST", "301", "GET", ""},
		"a POST with another to see":          {"POST", "303", "GET", ""},
		"a PUT with another to see":           {"PUT", "303", "GET", ""},
		"a POST for this once":                {"POST", "307", "POST", "asked"},
		"a POST for ever":                     {"POST", "308", "POST", "asked"},
		"a PUT that is found elsewhere":       {"PUT", "302", "PUT", "asked"},
		"a DELETE that moved":                 {"DELETE", "301", "DELETE", "asked"},
		"a GET":                               {"GET", "302", "GET", "asked"},
		"an answer that only lists locations": {"GET", "300", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, redirecting)
			c, _ := newClient(nil, s)
			answer, err := c.Do(t.Context(), Request{
				Method:  test.method,
				URL:     s.at("/?to=/there&status=" + test.status),
				Body:    []byte("asked"),
				MaxBody: 100,
				Header: http.Header{
					"Content-Type": {"text/plain"},
					"X-Own":        {"mine"},
				},
				Secret: http.Header{"Authorization": {"hidden"}},
			})
			if err != nil {
				t.Fatal(err)
			}
			if test.want == "" {
				if answer.Status != http.StatusMultipleChoices || len(s.requests()) != 1 {
					t.Errorf("status %d after %d requests", answer.Status, len(s.requests()))
				}
				return
			}
			last := s.requests()[1]
			if string(answer.Body) != "arrived" || last.Method != test.want || s.bodies[1] != test.body ||
				last.URL.Path != "/there" {
				t.Errorf("%q: %s %s %q", answer.Body, last.Method, last.URL.Path, s.bodies[1])
			}
			if last.Header.Get("Authorization") != "hidden" || last.Header.Get("X-Own") != "mine" ||
				(last.Header.Get("Content-Type") != "") != (test.body != "") {
				t.Errorf("the same place gets %v", last.Header)
			}
		})
	}
}

func TestAnotherPlaceGetsNeitherHeadersNorSecrets(t *testing.T) {
	first, second := newSite(t, redirecting), newSite(t, redirecting)
	c, _ := newClient(nil, first, second)
	for name, to := range map[string]string{
		"another port": second.at("/"), "another host": "https://127.0.0.1:" + first.port + "/",
	} {
		t.Run(name, func(t *testing.T) {
			r := Request{
				Method:  "POST",
				URL:     first.at("/?status=307&to=" + to),
				Body:    []byte("asked"),
				MaxBody: 100,
				Header: http.Header{
					"Content-Type":  {"text/plain"},
					"X-Own":         {"mine"},
					"Authorization": {"hidden"},
					"Cookie":        {"hidden"},
				},
			}
			there := len(second.requests())
			if _, err := c.Do(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			got := first
			if len(second.requests()) > there {
				got = second
			}
			last := got.requests()[len(got.requests())-1]
			if last.Header.Get("X-Own")+last.Header.Get("Authorization")+last.Header.Get("Cookie") != "" ||
				last.Header.Get("Content-Type") != "text/plain" {
				t.Errorf("another place gets %v", last.Header)
			}
			before := len(first.requests()) + len(second.requests())
			r.Secret = http.Header{"X-Key": {"hidden"}}
			_, err := c.Do(t.Context(), r)
			expect(t, err, ReasonRedirect, true)
			if len(first.requests())+len(second.requests()) != before+1 {
				t.Error("a request with a secret went to another place")
			}
		})
	}
}

func TestARedirectIsRefused(t *testing.T) {
	s := newSite(t, redirecting)
	for name, test := range map[string]struct {
		to     string
		change func(*Request)
	}{
		"to http":                {to: "http://example.com/"},
		"to http, where allowed": {to: "http://example.com/", change: func(r *Request) { r.AllowHTTP = true }},
		"to a file":              {to: "file:///etc/passwd"},
		"to a URL with a user":   {to: "https://hidden:hidden@example.com/"},
		"to an invalid URL":      {to: "https://["},
		"to metadata":            {to: "https://169.254.169.254/latest"},
		"to a name within":       {to: "https://inside.example/"},
		"to where it may not go": {to: "https://127.0.0.1:" + s.port + "/", change: func(r *Request) {
			r.Permits = func(u *url.URL) bool { return u.Hostname() == "example.com" }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c, resolver := newClient(nil, s)
			resolver.answers["inside.example"] = []string{"10.96.0.1"}
			r := get(s.at("/?to=" + test.to))
			if test.change != nil {
				test.change(&r)
			}
			before := len(s.requests())
			_, err := c.Do(t.Context(), r)
			expect(t, err, ReasonRedirect, true)
			if n := len(s.requests()) - before; n != 1 {
				t.Errorf("the server got %d requests", n)
			}
		})
	}
}

func TestRedirectsAreCounted(t *testing.T) {
	for hops, fine := range map[int]bool{0: true, MaxRedirects: true, MaxRedirects + 1: false} {
		s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
			if left, _ := strconv.Atoi(r.URL.Path[1:]); left > 0 {
				http.Redirect(w, r, "/"+strconv.Itoa(left-1), http.StatusSeeOther)
			}
		})
		c, _ := newClient(nil, s)
		_, err := c.Do(t.Context(), get(s.at("/"+strconv.Itoa(hops))))
		if fine {
			if err != nil {
				t.Errorf("%d redirects: %v", hops, err)
			}
			continue
		}
		expect(t, err, ReasonRedirect, true)
		if n := len(s.requests()); n != MaxRedirects+1 {
			t.Errorf("the server got %d requests", n)
		}
	}
}

// A server may have the credential in the host that it redirects to.
func TestTheTargetOfARedirectThatCredentialsKeepFromIsNotNamed(t *testing.T) {
	s := newSite(t, redirecting)
	c, _ := newClient(nil, s)
	for name, change := range map[string]func(*Request){
		"with a secret header": func(r *Request) { r.Secret = http.Header{"X-Key": {"hunter2"}} },
		"with a secret body":   func(r *Request) { r.Confined = true },
	} {
		r := get(s.at("/?status=307&to=https://hunter2/"))
		change(&r)
		_, err := c.Do(t.Context(), r)
		expect(t, err, ReasonRedirect, true)
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
