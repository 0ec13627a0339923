package platform

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

// Rules: SVC-04.
func TestAMessageIsSentOnce(t *testing.T) {
	c := newCluster(t)
	c.put("sessions/other", nil)
	const arguments = `{"session":"other","message":"Begin <now>."}`
	first := c.call(t, SendTool, arguments)
	second := c.call(t, SendTool, arguments)
	if first != second || !strings.HasPrefix(first, `{"session":"other","turn":"msg-`) {
		t.Errorf("the results are %s and %s", first, second)
	}
	if len(c.objects) != 4 {
		t.Errorf("there are %d objects", len(c.objects))
	}
	c.environment[result.EnvIdempotencyKey] = "key-2"
	if other := c.call(t, SendTool, arguments); other == first {
		t.Error("another call has the same Turn")
	}
	for path, o := range c.objects {
		by := "system:serviceaccount:team:bot"
		if strings.HasPrefix(path, "turns/msg-") && o["spec"].(map[string]any)["submittedBy"] != by {
			t.Errorf("the Turn is %v", o)
		}
	}
}

// Rules: SVC-04.
func TestAnObjectOfAnotherCallIsNotAdopted(t *testing.T) {
	c := newCluster(t)
	c.put("sessions/other", nil)
	c.put("turns/"+nameOf("msg", hashOf("key-1")), nil)
	if got := c.call(t, SendTool, `{"session":"other","message":"x"}`); !strings.Contains(got, "already exists") {
		t.Errorf("the result is %s", got)
	}
}

// Rules: SVC-04.
func TestMessagesOfAgentsDoNotFollowFromOneAnotherForever(t *testing.T) {
	for _, test := range []struct {
		name, origin string
		before       string
		want         string
	}{
		{"the message of a user", "", "", ""},
		{"the seventh", "", "7", ""},
		{"the ninth", "", "8", "would follow from 8 messages of agents"},
		{"of a sub-agent", "subAgent", "8", "would follow from 8 messages of agents"},
		{"of a background task", "task", "8", "would follow from 8 messages of agents"},
		{"of a sub-agent whose caller is deleted", "subAgent gone", "1", "is deleted"},
		{"of a background task whose root is deleted", "task gone", "1", "is deleted"},
		{"of a background task whose root was created again", "task other", "1", "is deleted"},
		{"a forged number", "", "99999999999999999999", ""},
		{"a large number", "", "4000000000", "would follow from 8"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCluster(t)
			c.put("sessions/other", nil)
			at := "turns/own-1"
			if test.origin != "" {
				at = "turns/above"
				c.put(at, nil)
				origin, how, _ := strings.Cut(test.origin, " ")
				above := map[string]any{"name": "above", "uid": "uid-above" + how}
				c.put("turns/own-1", map[string]any{"origin": map[string]any{origin: map[string]any{
					"turn": above, "root": above,
				}}})
				if how == "gone" {
					above["name"] = "gone"
				}
			}
			if test.before != "" {
				c.annotate(at, AnnotationDepth, test.before)
			}
			got := c.call(t, SendTool, `{"session":"other","message":"x"}`)
			if refused := strings.HasPrefix(got, "error: "); refused != (test.want != "") || !strings.Contains(got, test.want) {
				t.Errorf("the result is %s", got)
			}
		})
	}
	c := newCluster(t)
	c.put("sessions/other", nil)
	c.put("turns/own-1", map[string]any{"origin": map[string]any{"subAgent": map[string]any{
		"turn": map[string]any{"name": "own-1", "uid": "uid-own-1"},
	}}})
	if got := c.call(t, SendTool, `{"session":"other","message":"x"}`); !strings.Contains(got, "would follow from") {
		t.Errorf("a Turn that follows from itself sends: %s", got)
	}
}

// Rules: SVC-04.
func TestASessionDoesNotManageItself(t *testing.T) {
	c := newCluster(t)
	c.put("sessions/parent", nil)
	c.put("sessions/own", map[string]any{"origin": map[string]any{"subAgent": map[string]any{
		"session": map[string]any{"name": "parent"},
	}}})
	for tool, arguments := range map[string]string{
		SendTool: `{"session":"own","message":"x"}`, WaitTool: `{"session":"own"}`,
		UpdateTool: `{"kind":"session","name":"own","spec":{}}`, ArchiveTool: `{"kind":"session","name":"own"}`,
	} {
		if got := c.call(t, tool, arguments); !strings.Contains(got, "is your own") {
			t.Errorf("%s: %s", tool, got)
		}
	}
	if got := c.call(t, WaitTool, `{"session":"parent"}`); !strings.Contains(got, "you are a sub-agent of it") {
		t.Errorf("the result is %s", got)
	}
	if sent := c.sent(); len(sent) > 0 {
		t.Errorf("it has sent %q", sent)
	}
}

// Rules: SVC-04.
func TestTheNewestMessagesComeFirst(t *testing.T) {
	c := newCluster(t)
	c.put("sessions/other", nil)
	turn := func(name, input string, state map[string]any) {
		c.put("turns/"+name, map[string]any{"input": input, "sessionRef": map[string]any{"name": "other"}}, state)
	}
	turn("t-1", "first", map[string]any{"phase": "Succeeded", "output": "one"})
	turn("t-2", "second", map[string]any{"phase": "Failed", "error": map[string]any{"message": "no Model"}})
	turn("t-3", strings.Repeat("x", 20_000), map[string]any{"phase": "Reason"})
	c.put("turns/elsewhere", map[string]any{"input": "no", "sessionRef": map[string]any{"name": "third"}})
	texts := func(arguments string) string {
		var got struct{ Messages []message }
		if err := json.Unmarshal([]byte(c.call(t, RecentTool, arguments)), &got); err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, m := range got.Messages {
			all = append(all, m.Role+" "+m.Text[:min(len(m.Text), 8)])
			if len(m.Text) > maxMessageBytes+3 {
				t.Errorf("a message has %d bytes", len(m.Text))
			}
		}
		return strings.Join(all, ", ")
	}
	if got := texts(`{"session":"other"}`); got != "user xxxxxxxx, error no Model, user second, agent one, user first" {
		t.Errorf("the messages are %s", got)
	}
	if got := texts(`{"session":"other","limit":2}`); got != "user xxxxxxxx, error no Model" {
		t.Errorf("the messages are %s", got)
	}
	for i := range 20 {
		turn(fmt.Sprintf("u-%d", i), strings.Repeat("x", 20_000), map[string]any{"phase": "Queued"})
	}
	if got := c.call(t, RecentTool, `{"session":"other","limit":50}`); len(got) > 60_000 {
		t.Errorf("the messages have %d bytes", len(got))
	}
	missing := "error: the API server refused: sessions/none not found"
	if got := c.call(t, RecentTool, `{"session":"none"}`); got != missing {
		t.Errorf("the result is %s", got)
	}
}

// Rules: SVC-04.
func TestAWaitEndsWhenNoTurnIsLeft(t *testing.T) {
	c := newCluster(t)
	turn := func(name, phase string, suspended bool) {
		c.put("turns/"+name, map[string]any{"sessionRef": map[string]any{"name": "other"}, "suspend": suspended},
			map[string]any{"phase": phase})
	}
	c.put("sessions/other", nil, map[string]any{"phase": "Active", "activeTurn": map[string]any{"name": "t-1"}})
	turn("t-1", "Reason", false)
	turn("held", "Queued", true)
	if got := c.call(t, WaitTool, `{"session":"other","timeout_seconds":1}`); got !=
		`{"session":"other","status":"Active","timed_out":true}` {
		t.Errorf("the result is %s", got)
	}
	<-c.opened
	ended := make(chan string, 1)
	go func() { ended <- c.call(t, WaitTool, `{"session":"other"}`) }()
	<-c.opened
	// A Turn that was just created is not shown by its Session, which was idle before.
	turn("t-1", "Succeeded", false)
	turn("t-2", "Queued", false)
	c.put("sessions/other", nil, map[string]any{"phase": "Idle"})
	c.watched <- struct{}{}
	select {
	case got := <-ended:
		t.Fatalf("it has ended with a queued Turn: %s", got)
	case <-c.opened:
	}
	turn("t-2", "Succeeded", false)
	c.watched <- struct{}{}
	if got := <-ended; got != `{"session":"other","status":"Idle","timed_out":false}` {
		t.Errorf("the result is %s", got)
	}
}

// Rules: SVC-04.
func TestAWaitIsBounded(t *testing.T) {
	for seconds, want := range map[int]time.Duration{
		0: 2 * time.Minute, -5: 2 * time.Minute, 7: 7 * time.Second, 600: 10 * time.Minute, 1 << 40: 10 * time.Minute,
	} {
		if got := (arguments{Seconds: seconds}).wait(); got != want {
			t.Errorf("%d: %s", seconds, got)
		}
	}
	if MaxWait+requestTimeout >= WaitTimeout || limit >= Timeout {
		t.Error("a call does not end before its Job")
	}
}

// Rules: SVC-04.
func TestObjectsAreCreatedChangedAndArchived(t *testing.T) {
	c := newCluster(t)
	created := c.call(t, CreateTool, `{"kind":"agent","spec":{"systemPrompt":"Be brief."}}`)
	var at struct{ Name string }
	if err := json.Unmarshal([]byte(created), &at); err != nil || c.objects["agents/"+at.Name] == nil {
		t.Fatalf("the result is %s", created)
	}
	if again := c.call(t, CreateTool, `{"kind":"agent","spec":{"systemPrompt":"Be brief."}}`); again != created {
		t.Errorf("the repeated call returns %s", again)
	}
	name := func(arguments string) string { return strings.ReplaceAll(arguments, "NAME", at.Name) }
	steps := []struct{ tool, arguments, want string }{
		{GetTool, `{"kind":"agent","name":"NAME"}`, `"systemPrompt":"Be brief."`},
		{UpdateTool, `{"kind":"agent","name":"NAME","spec":{"systemPrompt":"Be long."}}`, `"archived":false`},
		{GetTool, `{"kind":"agent","name":"NAME"}`, `"systemPrompt":"Be long."`},
		{ArchiveTool, `{"kind":"agent","name":"NAME"}`, `"archived":true`},
		{ListTool, `{"kind":"agent"}`, `{"items":[]}`},
		{ListTool, `{"kind":"agent","archived":true}`, `"Name":"NAME"`},
		{ArchiveTool, `{"kind":"agent","name":"NAME","restore":true}`, `"archived":false`},
		{ListTool, `{"kind":"agent"}`, `"Name":"NAME"`},
	}
	for i, s := range steps {
		if got := c.call(t, s.tool, name(s.arguments)); !strings.Contains(got, name(s.want)) {
			t.Errorf("step %d, %s: %s", i, s.tool, got)
		}
	}
	c.put("sessions/other", map[string]any{"title": "Old"})
	if got := c.call(t, ArchiveTool, `{"kind":"session","name":"other"}`); !strings.Contains(got, `"archived":true`) {
		t.Errorf("the result is %s", got)
	}
	if got := c.call(t, SendTool, `{"session":"other","message":"x"}`); !strings.Contains(got, "is archived") {
		t.Errorf("the result is %s", got)
	}
	restored := c.call(t, ArchiveTool, `{"kind":"session","name":"other","restore":true}`)
	if !strings.Contains(restored, `"archived":false`) {
		t.Errorf("the result is %s", restored)
	}
}

// Rules: SVC-04.
func TestAResultIsBounded(t *testing.T) {
	c := newCluster(t)
	c.put("agents/long", map[string]any{"systemPrompt": strings.Repeat("x", 60_000), "name": "y"})
	got := c.call(t, GetTool, `{"kind":"agent","name":"long"}`)
	if len(got) > 10_000 || !strings.Contains(got, "more bytes") {
		t.Errorf("the result has %d bytes", len(got))
	}
	files := make([]any, 60)
	for i := range files {
		files[i] = map[string]any{"content": strings.Repeat("x", 4_000)}
	}
	c.put("agents/wide", map[string]any{"initialFiles": files})
	got = c.call(t, GetTool, `{"kind":"agent","name":"wide"}`)
	if len(got) > maxObjectBytes || !strings.Contains(got, "more bytes") {
		t.Errorf("the result has %d bytes", len(got))
	}
	c.intercept = func(w http.ResponseWriter, _ *http.Request) bool {
		status(w, http.StatusForbidden, strings.Repeat("é", 1<<20))
		return true
	}
	if got := c.call(t, GetTool, `{"kind":"agent","name":"wide"}`); len(got) > maxErrorBytes+100 {
		t.Errorf("the error has %d bytes", len(got))
	}
	c.intercept = func(w http.ResponseWriter, _ *http.Request) bool {
		_, _ = w.Write(bytes.Repeat([]byte(" "), maxResponseBytes+2))
		return true
	}
	if got := c.call(t, GetTool, `{"kind":"agent","name":"wide"}`); !strings.Contains(got, "has more than") {
		t.Errorf("the result is %.80s", got)
	}
}

// apiOf is the API server for the program, which does not pause between requests.
func apiOf(t *testing.T, c *cluster) *api {
	t.Helper()
	a, err := connect(func(name string) string { return c.environment[name] })
	if err != nil {
		t.Fatal(err)
	}
	a.pause = time.Millisecond
	return a
}

// Rules: SVC-04.
func TestNamesOfAModelLeadNowhereElse(t *testing.T) {
	c := newCluster(t)
	for _, name := range []string{
		"", "..", "a/../../secrets", "a/status", "a?x=1", "a%2fb", "A", "a..b", "/a", "a\x00", strings.Repeat("a", 254),
		"demo#x", "á",
	} {
		encoded, err := json.Marshal(name)
		if err != nil {
			t.Fatal(err)
		}
		for tool, arguments := range map[string]string{
			GetTool: `{"kind":"agent","name":%s}`, UpdateTool: `{"kind":"agent","name":%s,"spec":{}}`,
			ArchiveTool: `{"kind":"agent","name":%s}`, SendTool: `{"session":%s,"message":"x"}`,
			RecentTool: `{"session":%s}`, WaitTool: `{"session":%s}`,
		} {
			if got := c.call(t, tool, fmt.Sprintf(arguments, encoded)); !strings.Contains(got, "is not the name of") {
				t.Errorf("%s %q: %s", tool, name, got)
			}
		}
	}
	for tool, arguments := range map[string]string{
		GetTool: `{"kind":"secret","name":"a"}`, ListTool: `{"kind":"secrets"}`, CreateTool: `{"kind":"../pods","spec":{}}`,
		UpdateTool: `[]`, "unheard_of": `{}`,
	} {
		if got := c.call(t, tool, arguments); !strings.HasPrefix(got, "error: ") {
			t.Errorf("%s: %s", tool, got)
		}
	}
	if len(c.requests) > 0 {
		t.Errorf("it has sent %q", c.requests)
	}
}

// Rules: SVC-04.
func TestATokenThatIsNoServiceAccountsIsRefused(t *testing.T) {
	encode := func(claims string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".x"
	}
	for _, token := range []string{
		"", "x", "a.b.c", encode(`{}`), encode(`{"sub":"ann"}`), encode(`{"sub":"system:serviceaccount:../x:bot"}`),
		encode(`{"sub":"system:node:a:b"}`),
	} {
		if _, _, err := identityOf(token); err == nil {
			t.Errorf("%q is accepted", token)
		}
	}
}

// Rules: SVC-04.
func TestAServerOfAnotherAuthorityGetsNoToken(t *testing.T) {
	c, other := newCluster(t), newCluster(t)
	other.environment[result.EnvCAFile] = filepath.Join(t.TempDir(), "none")
	if got := other.call(t, ListTool, `{"kind":"agent"}`); !strings.Contains(got, "reading the certificates") {
		t.Errorf("the result is %s", got)
	}
	a := apiOf(t, c)
	a.http.Transport.(*http.Transport).TLSClientConfig.RootCAs = x509.NewCertPool()
	err := a.do(t.Context(), request{method: http.MethodGet, kind: sessions, name: "own"}, nil)
	if err == nil || !strings.Contains(err.Error(), "cannot reach the API server") || len(c.requests) > 0 {
		t.Errorf("%v, and the server has seen %q", err, c.requests)
	}
}
