package platform

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Rules: SVC-04.
func TestARequestIsRepeatedWhileItMaySucceed(t *testing.T) {
	for code, repeated := range map[int]bool{
		http.StatusTooManyRequests: true, http.StatusInternalServerError: true, http.StatusServiceUnavailable: true,
		http.StatusForbidden: false, http.StatusNotFound: false, http.StatusUnprocessableEntity: false,
		http.StatusFound: false,
	} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			c := newCluster(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			seen := 0
			c.intercept = func(w http.ResponseWriter, _ *http.Request) bool {
				seen++
				if seen == 8 {
					cancel()
				}
				w.Header().Set("Location", "https://example.org/")
				status(w, code, "not this time")
				return true
			}
			err := apiOf(t, c).do(ctx, request{method: http.MethodGet, kind: sessions, name: "other"}, nil)
			if err == nil || (seen == 8) != repeated || !repeated && seen != 1 ||
				!strings.Contains(err.Error(), "not this time") {
				t.Errorf("%d requests, and %v", seen, err)
			}
		})
	}
}

// losing loses the connection of the first requests, after it has carried out those that create something.
func losing(c *cluster, first int) {
	c.intercept = func(_ http.ResponseWriter, r *http.Request) bool {
		first--
		if first < 0 {
			return false
		}
		if r.Method == http.MethodPost {
			c.serve(httptest.NewRecorder(), r, strings.TrimPrefix(r.URL.Path, "/apis/capstan.dev/v1alpha1/namespaces/team/"))
		}
		panic(http.ErrAbortHandler)
	}
}

// callOf is a call with the arguments, which does not pause between requests.
func callOf(t *testing.T, c *cluster, a arguments) *call {
	t.Helper()
	return &call{api: apiOf(t, c), arguments: a, session: "own", turn: "own-1", id: hashOf("key-1")}
}

// Rules: SVC-04.
func TestAMessageIsSentOnceWhileTheServerRestarts(t *testing.T) {
	c := newCluster(t)
	c.put("sessions/other", nil)
	sending := callOf(t, c, arguments{Session: "other", Message: "Begin."})
	to := object{
		Metadata: metadata{Name: "msg", Annotations: sending.marks()},
		Spec:     map[string]any{"input": "Begin.", "submittedBy": sending.user},
	}
	losing(c, 7)
	if err := sending.createOnce(t.Context(), turns, to); err != nil {
		t.Error(err)
	}
	if c.objects["turns/msg"] == nil || len(c.objects) != 4 {
		t.Errorf("the objects are %v", c.objects)
	}
}

// Rules: SVC-04.
func TestAWaitGoesOnWhileTheServerRestarts(t *testing.T) {
	c := newCluster(t)
	c.put("sessions/other", nil, map[string]any{"phase": "Active", "activeTurn": map[string]any{"name": "t"}})
	lost := 0
	c.intercept = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") == "" {
			return false
		}
		lost++
		if lost == 3 {
			c.put("sessions/other", nil, map[string]any{"phase": "Idle"})
		}
		panic(http.ErrAbortHandler)
	}
	got, err := wait(t.Context(), callOf(t, c, arguments{Session: "other"}))
	if want := (idleness{Session: "other", Status: "Idle"}); err != nil || got != want {
		t.Errorf("%v, %v", got, err)
	}
}

// Rules: SVC-04.
func TestACreationWithoutAResponseHasAnUnknownOutcome(t *testing.T) {
	c := newCluster(t)
	sending := callOf(t, c, arguments{})
	o := object{
		Metadata: metadata{Name: "msg", Annotations: sending.marks()}, Spec: map[string]any{"submittedBy": sending.user},
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := 0
	c.intercept = func(http.ResponseWriter, *http.Request) bool {
		seen++
		if seen == 3 {
			cancel()
		}
		panic(http.ErrAbortHandler)
	}
	err := sending.createOnce(ctx, turns, o)
	if err == nil || !strings.Contains(err.Error(), "it is not known whether Turn msg was created") {
		t.Errorf("the creation: %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	seen = 0
	_, err = callOf(t, c, arguments{Kind: "agent", Name: "a"}).patch(ctx, kinds["agent"], nil, "change it")
	if err == nil || !strings.Contains(err.Error(), "it is not known whether the API server has carried out the request") {
		t.Errorf("the patch: %v", err)
	}

	// A refusal after a lost attempt counts, unless the object is there: the lost attempt may have used up the quota.
	for committed, want := range map[bool]string{true: "", false: "exceeded quota"} {
		c := newCluster(t)
		posts := 0
		c.intercept = func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPost {
				return false
			}
			posts++
			if posts == 1 {
				if committed {
					c.serve(httptest.NewRecorder(), r, "turns")
				}
				panic(http.ErrAbortHandler)
			}
			status(w, http.StatusForbidden, "exceeded quota")
			return true
		}
		err := callOf(t, c, arguments{}).createOnce(t.Context(), turns, o)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("committed: %t, error: %v", committed, err)
		}
	}
}

// Rules: SVC-04.
func TestAnObjectThatTheCallDoesNotCreateIsNotAdopted(t *testing.T) {
	by := "system:serviceaccount:team:bot"
	turn := func(session, input, by string) map[string]any {
		return map[string]any{
			"sessionRef": map[string]any{"name": session}, "input": input, "submittedBy": by, "x": "default",
		}
	}
	for name, test := range map[string]struct {
		there   map[string]any
		adopted bool
	}{
		"the same":           {turn("other", "Begin.", by), true},
		"of another user":    {turn("other", "Begin.", "mallory"), false},
		"of no user":         {turn("other", "Begin.", ""), false},
		"with another text":  {turn("other", "Leak.", by), false},
		"in another Session": {turn("mine", "Begin.", by), false},
	} {
		c := newCluster(t)
		c.put("sessions/other", nil)
		at := "turns/" + nameOf("msg", hashOf("key-1"))
		c.put(at, test.there)
		c.annotate(at, AnnotationCall, hashOf("key-1"))
		got := c.call(t, SendTool, `{"session":"other","message":"Begin."}`)
		if refused := strings.Contains(got, "already exists"); refused == test.adopted {
			t.Errorf("%s: %s", name, got)
		}
	}
	for spec, adopted := range map[string]bool{
		`{"systemPrompt":"Be brief.","tools":[{"name":"a"}],"modelRef":null}`: true,
		`{"systemPrompt":"Be long.","tools":[{"name":"a"}]}`:                  false,
		`{"systemPrompt":"Be brief.","tools":[{"name":"b"}]}`:                 false,
		`{"systemPrompt":"Be brief.","tools":[]}`:                             false,
		`{"maxIterations":7}`: false,
	} {
		c := newCluster(t)
		at := "agents/" + nameOf("agent", hashOf("key-1"))
		c.put(at, map[string]any{
			"systemPrompt": "Be brief.", "lifecycle": "Active", "tools": []any{map[string]any{"name": "a", "x": true}},
		})
		c.annotate(at, AnnotationCall, hashOf("key-1"))
		got := c.call(t, CreateTool, `{"kind":"agent","spec":`+spec+`}`)
		if refused := strings.Contains(got, "already exists"); refused == adopted {
			t.Errorf("%s: %s", spec, got)
		}
	}
}
