package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capstan-dev/capstan/internal/runtime/egress"
)

const (
	// MaxTaskIDBytes is the maximum length of the id of a task.
	MaxTaskIDBytes = 512

	// tasksExtension is the extension of the protocol by which a call may become a task.
	tasksExtension = "io.modelcontextprotocol/tasks"
	// tasksVersion is the first version of the protocol with the extension.
	tasksVersion = "2026-07-28"
	// maxCreationBytes is the maximum size of the message by which a server reports that a call has become a task.
	maxCreationBytes = 16 << 10
	// codeInvalidParams is the error of a server that does not know a task.
	codeInvalidParams = -32602
	// codeNoMethod is the error of a server that does not know a method.
	codeNoMethod = -32601
)

// TaskStatus is the status of a task.
type TaskStatus string

// The values of TaskStatus.
const (
	TaskWorking       TaskStatus = "working"
	TaskInputRequired TaskStatus = "input_required"
	TaskCompleted     TaskStatus = "completed"
	TaskFailed        TaskStatus = "failed"
	TaskCancelled     TaskStatus = "cancelled"
)

// Task is a call that a server continues by itself.
type Task struct {
	// ID of the task at its server.
	ID string
	// Status of the task.
	Status TaskStatus
	// Pause is the time until the server wants to be asked again; 0 if it does not say.
	Pause time.Duration
	// Result of a completed task, and Failure of a failed one.
	Result  *Result
	Failure string
}

// ErrTaskUnknown reports a task that its server does not know.
var ErrTaskUnknown = errors.New("the server does not know the task")

// wireTask is a task in the form of the protocol.
type wireTask struct {
	ResultType     string              `json:"resultType"`
	TaskID         string              `json:"taskId"`
	Status         TaskStatus          `json:"status"`
	PollIntervalMs int64               `json:"pollIntervalMs"`
	Result         *sdk.CallToolResult `json:"result"`
	Error          *wireError          `json:"error"`
}

type wireError struct {
	Code    int64  `json:"code"`
	Message string `json:"message"`
}

// task is a task in the form of this package; nil if it is not valid.
func (w wireTask) task() *Task {
	t := &Task{ID: w.TaskID, Status: w.Status}
	if !validTaskID(w.TaskID) {
		return nil
	}
	if w.PollIntervalMs > 0 && w.PollIntervalMs < int64(time.Hour/time.Millisecond) {
		t.Pause = time.Duration(w.PollIntervalMs) * time.Millisecond
	}
	switch w.Status {
	case TaskWorking, TaskInputRequired, TaskCancelled:
	case TaskCompleted:
		if w.Result == nil {
			return nil
		}
		t.Result = &Result{Text: textOf(w.Result), IsError: w.Result.IsError}
	case TaskFailed:
		if t.Failure = "it has no text"; w.Error != nil && w.Error.Message != "" {
			t.Failure = w.Error.Message
		}
	default:
		return nil
	}
	return t
}

// validTaskID reports whether a text can be the id of a task: it is sent in a header.
func validTaskID(id string) bool {
	if id == "" || len(id) > MaxTaskIDBytes {
		return false
	}
	for _, r := range id {
		if r <= ' ' || r > '~' {
			return false
		}
	}
	return true
}

// created returns the task that the response to a call has created; false if it is a response of another kind. The task
// is nil if it is not valid.
func created(response []byte) (*Task, bool) {
	for _, message := range messages(response) {
		var m struct {
			Result wireTask `json:"result"`
		}
		if json.Unmarshal(message, &m) != nil || m.Result.ResultType != "task" {
			continue
		}
		// No other field counts before the task is asked for.
		return wireTask{TaskID: m.Result.TaskID, Status: TaskWorking, PollIntervalMs: m.Result.PollIntervalMs}.task(), true
	}
	return nil, false
}

// messages are those of a response: one, or the data of several events.
func messages(response []byte) [][]byte {
	var found [][]byte
	for line := range bytes.Lines(response) {
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			found = append(found, bytes.TrimSpace(data))
		}
	}
	if found == nil {
		return [][]byte{response}
	}
	return found
}

// GetTask asks a server for a task. The error is an *Error, or ErrTaskUnknown.
func GetTask(
	ctx context.Context, client *egress.Client, server Server, id string, permits func(*url.URL) bool,
) (*Task, error) {
	raw, err := about(ctx, client, server, "tasks/get", id, permits)
	if err != nil {
		return nil, err
	}
	var w wireTask
	if err := json.Unmarshal(raw, &w); err != nil {
		return nil, &Error{Called: true, Answered: true, cause: err}
	}
	if t := w.task(); t != nil && t.ID == id {
		return t, nil
	}
	return nil, &Error{Called: true, Answered: true, cause: errors.New("invalid task")}
}

// CancelTask asks a server to end a task. The server may finish it nevertheless.
func CancelTask(
	ctx context.Context, client *egress.Client, server Server, id string, permits func(*url.URL) bool,
) error {
	_, err := about(ctx, client, server, "tasks/cancel", id, permits)
	return err
}

// about sends one request about a task, and returns its result.
func about(
	ctx context.Context, client *egress.Client, server Server, method, id string, permits func(*url.URL) bool,
) (json.RawMessage, error) {
	t := newTransport(client, server, egress.TransportOptions{MaxBody: MaxResponseBytes})
	t.allow(permits)
	body, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": 1, "method": method, "params": map[string]any{"taskId": id, "_meta": meta()},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding a request: %w", err)
	}
	x := &exchange{bulky: true}
	request, err := http.NewRequestWithContext(x.within(ctx), http.MethodPost, server.URL, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("making a request: %w", err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": tasksVersion, "Mcp-Method": method, "Mcp-Name": id,
	} {
		request.Header.Set(name, value)
	}
	answer, err := t.RoundTrip(request)
	if err != nil {
		return nil, x.explain(ctx, err)
	}
	defer answer.Body.Close()
	response, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, x.explain(ctx, err)
	}
	return resultIn(x, response)
}

// resultIn is the result in the response to a request about a task.
func resultIn(x *exchange, response []byte) (json.RawMessage, error) {
	for _, message := range messages(response) {
		var m struct {
			Result json.RawMessage `json:"result"`
			Error  *wireError      `json:"error"`
		}
		switch {
		case json.Unmarshal(message, &m) != nil:
		case m.Error != nil && (m.Error.Code == codeInvalidParams || m.Error.Code == codeNoMethod):
			return nil, ErrTaskUnknown
		case m.Error != nil:
			e := x.fate()
			e.Rejected = fmt.Sprintf("code %d: %s", m.Error.Code, m.Error.Message)
			return nil, &e
		case m.Result != nil:
			return m.Result, nil
		}
	}
	e := x.fate()
	e.cause = errors.New("no result")
	return nil, &e
}

// meta is what each request says about this client.
func meta() map[string]any {
	return map[string]any{
		sdk.MetaKeyProtocolVersion:    tasksVersion,
		sdk.MetaKeyClientInfo:         implementation(),
		sdk.MetaKeyClientCapabilities: map[string]any{"extensions": map[string]any{tasksExtension: map[string]any{}}},
	}
}

// capabilities are those of this client.
func capabilities() *sdk.ClientCapabilities {
	c := &sdk.ClientCapabilities{}
	c.AddExtension(tasksExtension, map[string]any{})
	return c
}

// tail keeps the end of what is added to it.
type tail struct{ kept []byte }

func (t *tail) add(part []byte) {
	if surplus := len(part) - maxCreationBytes; surplus > 0 {
		part = part[surplus:]
	}
	t.kept = append(t.kept, part...)
	if surplus := len(t.kept) - maxCreationBytes; surplus > 0 {
		t.kept = append(t.kept[:0], t.kept[surplus:]...)
	}
}
