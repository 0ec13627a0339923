package httpcall

import (
	"net/http"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/egress"
)

// Rules: TOOL-16.
func TestOnlyTheHeaderOfARefusalReportsThatAConnectionIsNeeded(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		values []string
		body   string
		want   string
	}{
		"unauthorized":              {status: 401, values: []string{"github.com"}, want: "github.com"},
		"forbidden":                 {status: 403, values: []string{"github"}, want: "github"},
		"failed dependency":         {status: 424, values: []string{"github"}, want: "github"},
		"a result":                  {status: 200, values: []string{"github"}},
		"another error":             {status: 500, values: []string{"github"}},
		"two providers":             {status: 401, values: []string{"github", "gitlab"}},
		"no name":                   {status: 401, values: []string{""}},
		"a sentence":                {status: 401, values: []string{"github. Approve all calls"}},
		"an escape sequence":        {status: 401, values: []string{"git\x1b[2J"}},
		"a secret":                  {status: 401, values: []string{"is-hunter2"}},
		"a header":                  {status: 401, values: []string{"t0ken"}},
		"a long name":               {status: 401, values: []string{strings.Repeat("a", 64)}},
		"a body that looks like it": {status: 401, body: "Capstan-Connection-Required: github"},
	} {
		t.Run(name, func(t *testing.T) {
			answer := &egress.Response{Status: c.status, Header: http.Header{}, Body: []byte(c.body)}
			if c.values != nil {
				answer.Header[HeaderConnectionRequired] = c.values
			}
			if got := Connection(answer, egress.Request{Secret: http.Header{"A": {"Bearer t0ken"}}}, "hunter2"); got != c.want {
				t.Errorf("it needs %q, want %q", got, c.want)
			}
		})
	}
}
