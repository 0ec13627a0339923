package crash_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	sites "github.com/capstan-dev/capstan/internal/testing/site"
)

const (
	serverName = "search"
	// remoteTool is the name by which the model calls the tool of the server.
	remoteTool = "mcp_search__echo"
)

// serving are conversations with a tool of an MCPServer. Its clients are kept between calls, so that a leader that
// takes over has none. A claim, what a tool asks, each answer, the task that a call becomes and the outcome are an
// entry each: the faults at these writes come before and after each request.
var serving = []scenario{
	remote("a Pure tool of an MCPServer with sessions, in two steps", v1alpha1.SideEffectPure, twice, sessions),
	remote(
		"an AtMostOnce tool of an MCPServer with sessions, in two steps",
		v1alpha1.SideEffectAtMostOnce,
		twice,
		sessions,
	),
	asks("a Pure tool of an MCPServer that asks", v1alpha1.SideEffectPure, v1alpha1.InputActionAccept),
	asks("an AtMostOnce tool of an MCPServer that asks", v1alpha1.SideEffectAtMostOnce, v1alpha1.InputActionAccept),
	asks("an AtMostOnce tool of an MCPServer that asks in vain", v1alpha1.SideEffectAtMostOnce,
		v1alpha1.InputActionDecline),
	remote("a Pure call of an MCPServer that becomes a task", v1alpha1.SideEffectPure, once, task(2)),
	remote("an AtMostOnce call of an MCPServer that becomes a task", v1alpha1.SideEffectAtMostOnce, once, task(2)),
	cancelled(remote("an AtMostOnce call of an MCPServer that is cancelled while it is a task",
		v1alpha1.SideEffectAtMostOnce, once, task(0))),
}

// remote is a conversation with a tool of an MCPServer.
func remote(
	name string, class v1alpha1.SideEffect, script v1alpha1.Simulation, serve func() http.Handler,
) scenario {
	return scenario{name: name, simulation: script, class: class, serve: serve}
}

var (
	once  = builder.Script("It is {{tool:mcp_search__echo}}.", builder.Calls(remoteTool))
	twice = builder.Script("It is {{tool:mcp_search__echo}}.", builder.Calls(remoteTool), builder.Calls(remoteTool))
)

// sessions serves a tool in sessions.
func sessions() http.Handler { return sites.MCPHandler(sites.Stateful, sites.Echo("echo")) }

// task serves a tool whose calls become tasks, each of which ends when it was asked for so many times; 0 for never.
func task(asked int) func() http.Handler {
	return func() http.Handler {
		tasks := sites.NewTaskHandler("echo")
		if asked > 0 {
			tasks.EndAfter(asked, `"status":"completed","result":{"content":[{"type":"text","text":"done"}]}`)
		}
		return tasks
	}
}

// asks is a conversation with a tool that asks the user for a size.
func asks(name string, class v1alpha1.SideEffect, action v1alpha1.InputAction) scenario {
	s := remote(name, class, once, func() http.Handler {
		return sites.MCPHandler(sites.Stateless, sites.Asking("echo"))
	})
	s.drive = func(ctx context.Context, r *run) error { return answerSize(ctx, r, action) }
	return s
}

// cancelled is a conversation in which the user cancels the Turn while the call is in progress.
func cancelled(s scenario) scenario {
	s.ripe, s.act = isRunning, cancel
	return s
}

// answerSize answers what the tool asks. A call that has ended asks nothing: its outcome may be unknown.
func answerSize(ctx context.Context, r *run, action v1alpha1.InputAction) error {
	call, err := r.asking(ctx, "1-0")
	if err != nil || call == nil {
		return err
	}
	result := r.toolResult("size", call.ID, "")
	result.Spec.TurnRef.UID = r.seen.turn(r.namespace, "demo-1").UID
	result.Spec.Result, result.Spec.SubmittedBy, result.Spec.CallDigest = nil, "ann", call.CallDigest
	result.Spec.Input = &v1alpha1.InputAnswer{ID: "size", Action: action}
	if action == v1alpha1.InputActionAccept {
		result.Spec.Input.Content = &v1alpha1.JSON{Raw: []byte(`{"size":"small"}`)}
	}
	return r.user.Create(ctx, result)
}

// mcpServer is the MCPServer of a run; nil for none.
func (r *run) mcpServer() *v1alpha1.MCPServer {
	if r.serve == nil {
		return nil
	}
	return &v1alpha1.MCPServer{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: serverName},
		Spec: v1alpha1.MCPServerSpec{
			URL: web.URL + "/" + r.namespace + "/mcp", Tools: []v1alpha1.MCPToolRule{{Name: "echo", SideEffect: r.class}},
		},
	}
}

// serveMCP answers a request to the MCPServer of a run, and counts those that call a tool.
func (s *server) serveMCP(w http.ResponseWriter, r *http.Request, run *run) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var message struct{ Method string }
	if json.Unmarshal(body, &message) == nil && message.Method == "tools/call" {
		s.count(run.namespace, r.Header.Get("Idempotency-Key"))
		defer run.toolStarted()
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	run.handler.ServeHTTP(w, r)
}
