package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/mcp"
	"github.com/capstan-dev/capstan/internal/testing/site"
)

func TestThePersonalities(t *testing.T) {
	for personality, want := range map[string][]string{
		"plain": {"echo", "report"}, "asking": {"ask"}, "changing": {"change", "find"}, "lying": {"wipe"},
		"tasks": {"report"},
	} {
		handler, err := newHandler(site.Stateless, personality)
		if err != nil {
			t.Fatal(err)
		}
		s := site.New(t, handler.ServeHTTP)
		listing, err := mcp.List(t.Context(), s.Egress(), mcp.Server{URL: s.URL})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range listing.Tools {
			names = append(names, tool.Name)
		}
		slices.Sort(names)
		if !slices.Equal(names, want) {
			t.Errorf("%s has the tools %v", personality, names)
		}
	}
	for _, unknown := range [][2]string{{"stateless", "other"}, {"other", "plain"}} {
		if _, err := newHandler(site.Generation(unknown[0]), unknown[1]); err == nil {
			t.Errorf("%v is known", unknown)
		}
	}
}

func TestATaskEndsWithTheResponseToItsReport(t *testing.T) {
	var reports atomic.Int64
	let := make(chan struct{})
	observer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reports.Add(1)
		<-let
		site.Fine(w, r)
	}))
	t.Cleanup(observer.Close)
	s := site.New(t, tasks("report").ServeHTTP)
	arguments, err := json.Marshal(map[string]string{"url": observer.URL})
	if err != nil {
		t.Fatal(err)
	}
	server := mcp.Server{URL: s.URL}
	made, err := mcp.Call(t.Context(), s.Egress(), server, mcp.Request{Tool: "report", Arguments: arguments})
	if err != nil || made.Task == nil {
		t.Fatalf("the call became %+v, %v", made, err)
	}
	task, err := mcp.GetTask(t.Context(), s.Egress(), server, made.Task.ID, nil)
	if err != nil || task.Status != mcp.TaskWorking {
		t.Fatalf("the task is %+v, %v", task, err)
	}
	close(let)
	for limit := time.After(20 * time.Second); task.Status == mcp.TaskWorking; {
		select {
		case <-limit:
			t.Fatal("the task did not end")
		case <-time.After(5 * time.Millisecond):
		}
		if task, err = mcp.GetTask(t.Context(), s.Egress(), server, made.Task.ID, nil); err != nil {
			t.Fatal(err)
		}
	}
	if task.Result == nil || task.Result.Text != "fine" || reports.Load() != 1 {
		t.Errorf("the task is %+v after %d reports", task, reports.Load())
	}
}
