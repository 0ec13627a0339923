package mcpwire_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/testing/mcpwire"
	"github.com/capstan-dev/capstan/internal/testing/site"
)

// TestTheDocumentHasTheMessages compares the tables of docs/mcp.md with the messages that the tests expect.
func TestTheDocumentHasTheMessages(t *testing.T) {
	document, err := os.ReadFile("../../../docs/mcp.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(document), "\n## Messages\n")
	section, _, _ = strings.Cut(section, "\n## ")
	with, without, found := strings.Cut(section, "\nA server without sessions")
	if !found {
		t.Fatal("docs/mcp.md has no section Messages with both generations")
	}
	for g, text := range map[site.Generation]string{site.Stateful: with, site.Stateless: without} {
		if got, want := rows(text), tableOf(mcpwire.Expected(g)); got != want {
			t.Errorf("the table of %s servers is\n%s\nand should be\n%s", g, got, want)
		}
	}
}

// rows are the rows of the tables in a text, without their heads.
func rows(text string) string {
	var found []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| for ") && !strings.HasPrefix(line, "| --- ") {
			found = append(found, line)
		}
	}
	return strings.Join(found, "")
}

// tableOf is conversations as the rows of a table.
func tableOf(all map[mcpwire.Purpose]mcpwire.Conversation) string {
	var b strings.Builder
	for _, purpose := range []mcpwire.Purpose{mcpwire.Notices, mcpwire.Discovery, mcpwire.Calls} {
		for _, e := range all[purpose] {
			session := "no"
			if e.Session {
				session = "yes"
			}
			fmt.Fprintf(&b, "| %s | `%s` | %s | %s |\n", purpose, e.Request, session, e.Response)
		}
	}
	return b.String()
}

func TestMessagesAreRecordedInBothDirections(t *testing.T) {
	var messages []mcpwire.Message
	recorder := mcpwire.NewRecorder(func(m mcpwire.Message) { messages = append(messages, m) })
	handler := recorder.Around(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodGet:
			w.Header().Set("Content-Type", "text/event-stream")
			for _, part := range []string{
				"event: message\nda", "ta: {\"method\":\"notifications/x\"}\n", "\n: ping\ndata: \n\n",
			} {
				_, _ = w.Write([]byte(part))
			}
		case http.MethodPost:
			w.Header().Set("Mcp-Session-Id", "s")
			for _, part := range []string{`{"error":`, `{"code":-32601}}`} {
				_, _ = w.Write([]byte(part))
			}
		}
	}))
	for _, r := range []*http.Request{
		httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"method":"initialize"}`)),
		httptest.NewRequest(http.MethodGet, "/", http.NoBody),
		httptest.NewRequest(http.MethodDelete, "/", http.NoBody),
	} {
		if r.Method != http.MethodPost {
			r.Header.Set("Mcp-Session-Id", "s")
		}
		r.Header.Set("Idempotency-Key", "k")
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	want := []mcpwire.Message{
		{Request: 1, From: mcpwire.Client, Verb: "POST", Method: "initialize", Key: "k"},
		{Request: 1, From: mcpwire.Server, Status: 200, Session: "s"},
		{Request: 1, From: mcpwire.Server, Method: "error -32601"},
		{Request: 2, From: mcpwire.Client, Verb: "GET", Session: "s", Key: "k"},
		{Request: 2, From: mcpwire.Server, Status: 200},
		{Request: 2, From: mcpwire.Server, Method: "notifications/x"},
		{Request: 3, From: mcpwire.Client, Verb: "DELETE", Session: "s", Key: "k"},
		{Request: 3, From: mcpwire.Server, Status: 200},
	}
	if !reflect.DeepEqual(messages, want) {
		got, _ := json.MarshalIndent(messages, "", " ")
		t.Errorf("the messages are %s", got)
	}
}

// TestRequestsBelongToTheirConversations checks that those of two sessions are told apart when they mix.
func TestRequestsBelongToTheirConversations(t *testing.T) {
	request := func(n int, verb, method, session string) mcpwire.Message {
		return mcpwire.Message{Request: n, From: mcpwire.Client, Verb: verb, Method: method, Session: session}
	}
	response := func(n, status int, session string) mcpwire.Message {
		return mcpwire.Message{Request: n, From: mcpwire.Server, Status: status, Session: session}
	}
	got := mcpwire.Conversations([]mcpwire.Message{
		request(1, "POST", "initialize", ""), response(1, 200, "a"),
		request(2, "POST", "server/discover", ""), response(2, 400, ""),
		request(3, "POST", "initialize", ""), response(3, 200, "b"),
		request(4, "POST", "tools/call", "a"), request(5, "DELETE", "", "b"), response(5, 204, ""), response(4, 404, ""),
	})
	want := []mcpwire.Conversation{
		{{"POST initialize", false, "200 with a session"}, {"POST tools/call", true, "404"}},
		{
			{"POST server/discover", false, "400"}, {"POST initialize", false, "200 with a session"}, {"DELETE", true, "204"},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the conversations are %v", got)
	}
}
