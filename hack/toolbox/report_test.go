package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestReportListsWhatRunsAndPrintsTheResponse(t *testing.T) {
	t.Setenv("CAPSTAN_TURN", "demo-1")
	received := map[string]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&received); err != nil || r.Method != http.MethodPost {
			t.Errorf("%s with a body that does not decode: %v", r.Method, err)
		}
		_, _ = io.WriteString(w, "seen at "+r.URL.Path)
	}))
	defer server.Close()
	stdout, stderr, code := call(t, "report", `{"url":"`+server.URL+`/here"}`)
	if stdout != "seen at /here" || stderr != "" || code != 0 {
		t.Errorf("got %q, %q and exit code %d", stdout, stderr, code)
	}
	if received["CAPSTAN_TURN"] != "demo-1" {
		t.Errorf("the server received %v", received)
	}
}

func TestReportFailsWithoutAnAnswer(t *testing.T) {
	refusing := httptest.NewServer(http.NotFoundHandler())
	defer refusing.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for input, want := range map[string]string{
		`{}`:                             "takes a url",
		`{"url":"` + refusing.URL + `"}`: "404",
		`{"url":"` + gone.URL + `"}`:     "refused",
	} {
		stdout, stderr, code := call(t, "report", input)
		if stdout != "" || !strings.Contains(stderr, want) || code != exitFailed {
			t.Errorf("%s: got %q, %q and exit code %d, want %q", input, stdout, stderr, code, want)
		}
	}
}
