package site

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// Tasks is a TaskHandler that is served until the test ends.
type Tasks struct {
	*Site
	*TaskHandler
}

// NewTasks starts a server whose tool echo becomes a task.
func NewTasks(t testing.TB) *Tasks {
	t.Helper()
	handler := NewTaskHandler("echo")
	return &Tasks{Site: New(t, handler.ServeHTTP), TaskHandler: handler}
}

// TaskHandler is a server without sessions whose tool becomes a task, which is in progress until something else is set.
type TaskHandler struct {
	// Made is called with the arguments of each call; nil for nothing.
	Made func(arguments json.RawMessage)
	next http.Handler

	mu sync.Mutex
	// made is how many tasks there are, and forgotten whether the server has lost them.
	made      int
	forgotten bool
	// name begins the ids of tasks.
	name string
	end  string
	// of counts how often each task was asked for, and after is how often it must be before it ends.
	of        map[string]int
	after     int
	asked     int
	cancelled int
}

// NewTaskHandler returns a handler with a tool of a name.
func NewTaskHandler(tool string) *TaskHandler {
	return &TaskHandler{next: MCPHandler(Stateless, Echo(tool)), name: "task"}
}

// EndAfter lets each task be in a state once it was asked for so many times.
func (s *TaskHandler) EndAfter(times int, state string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of, s.after, s.end = map[string]int{}, times, state
}

// Name lets the ids of tasks begin with a text.
func (s *TaskHandler) Name(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.name = name
}

// End lets the tasks be in a state: the members of a task that follow its id.
func (s *TaskHandler) End(state string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end = state
}

// Forget lets the server lose all tasks.
func (s *TaskHandler) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgotten = true
}

// Counts returns how many tasks were made, asked for and cancelled.
func (s *TaskHandler) Counts() (made, asked, cancelled int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.made, s.asked, s.cancelled
}

// ServeHTTP implements http.Handler.
func (s *TaskHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct {
			TaskID    string          `json:"taskId"`
			Arguments json.RawMessage `json:"arguments"`
			Meta      map[string]any  `json:"_meta"`
		}
	}
	_ = json.Unmarshal(body, &m)
	offered, _ := json.Marshal(m.Params.Meta["io.modelcontextprotocol/clientCapabilities"])
	if m.Method != "tools/call" && !strings.HasPrefix(m.Method, "tasks/") {
		s.next.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := `"error":{"code":-32602,"message":"unknown task"}`
	switch {
	case !strings.Contains(string(offered), "io.modelcontextprotocol/tasks"):
		answer = `"error":{"code":-32021,"message":"tasks are required"}`
	case m.Method == "tools/call":
		s.made++
		if s.Made != nil {
			s.Made(m.Params.Arguments)
		}
		answer = fmt.Sprintf(`"result":{"resultType":"task","taskId":"%s-%d","status":"working","ttlMs":null,`+
			`"createdAt":"2026-11-01T12:00:00Z","lastUpdatedAt":"2026-11-01T12:00:00Z","pollIntervalMs":1}`, s.name, s.made)
	case r.Header.Get("Mcp-Name") != m.Params.TaskID || r.Header.Get("Mcp-Method") != m.Method || s.forgotten:
	case m.Method == "tasks/cancel":
		s.cancelled++
		answer = `"result":{"resultType":"complete"}`
	case s.end != "" && s.of[m.Params.TaskID]+1 >= s.after:
		s.asked++
		answer = fmt.Sprintf(`"result":{"resultType":"complete","taskId":%q,%s}`, m.Params.TaskID, s.end)
	default:
		s.asked++
		if s.of != nil {
			s.of[m.Params.TaskID]++
		}
		answer = fmt.Sprintf(`"result":{"resultType":"complete","taskId":%q,"status":"working","pollIntervalMs":1}`,
			m.Params.TaskID)
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, answer)
}
