package builtin

import (
	"context"
	"errors"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/background"
	"github.com/capstan-dev/capstan/internal/runtime/record"
)

// taskIDSchema is the schema of the arguments of the tools for one task.
const taskIDSchema = `{
  "type": "object",
  "required": ["task_id"],
  "properties": {"task_id": {"type": "string", "pattern": "^[0-9a-f]{16}$"}},
  "additionalProperties": false
}`

// backgroundTasks lets the model run tools in the background (TOOL-20, TASK-01). A call of SpawnTool is planned as one
// of the tool that it names, and never reaches Run.
var backgroundTasks = Capability{
	Name:        background.Capability,
	Description: "Lets the model run Job tools in the background, if they permit it.",
	Tools: []Tool{
		{
			Name: background.SpawnTool,
			Description: "Starts a tool in the background and returns the id of the task at once. A message with the result " +
				"comes when the task has ended. Use it for work that takes long and that you need not wait for.",
			SideEffect:  v1alpha1.SideEffectIdempotent,
			InputSchema: string(background.SpawnSchema(nil)),
			Run: func(context.Context, Call) (any, error) {
				return nil, errors.New("a call of " + background.SpawnTool + " was not planned as a task")
			},
		},
		{
			Name:        background.ListTool,
			Description: "Lists the background tasks of this session, with their states.",
			InputSchema: `{"type": "object", "properties": {}, "additionalProperties": false}`,
			Run:         withTasks(listTasks),
		},
		{
			Name:        background.ReadTool,
			Description: "Returns the state of a background task, and its whole result when it has ended.",
			InputSchema: taskIDSchema,
			Run:         withTasks(readTask),
		},
		{
			Name: background.CancelTool,
			Description: "Cancels a background task. A message comes when it has ended. A task that has started may have done " +
				"part of its work.",
			SideEffect:  v1alpha1.SideEffectIdempotent,
			InputSchema: taskIDSchema,
			Run:         withTasks(cancelTask),
		},
	},
}

// shownTask is a task as the model sees it.
type shownTask struct {
	ID         string     `json:"task_id"`
	Tool       string     `json:"tool"`
	State      string     `json:"state"`
	StartedAt  time.Time  `json:"started_at"`
	EndedAt    *time.Time `json:"ended_at,omitempty"`
	Cancelling bool       `json:"cancelling,omitempty"`
	Error      string     `json:"error,omitempty"`
	Result     *string    `json:"result,omitempty"`
}

func shown(t *background.Task) shownTask {
	s := shownTask{
		ID: t.ID, Tool: t.Tool.Name, State: string(t.State()), StartedAt: t.Recorded,
		Cancelling: t.Cancelled != nil && t.End == nil,
	}
	if t.End != nil {
		s.EndedAt, s.Error = &t.End.At, t.End.Error
	}
	return s
}

// withTasks returns the Run of a tool that needs the tasks of the Session.
func withTasks(run func(context.Context, Tasks, taskArguments) (any, error)) func(context.Context, Call) (any, error) {
	return using("background tasks", func(s Services) Tasks { return s.Tasks },
		func(ctx context.Context, _ Call, tasks Tasks, a taskArguments) (any, error) {
			return run(ctx, tasks, a)
		})
}

// taskArguments are the arguments of all tools.
type taskArguments struct {
	ID string `json:"task_id"`
}

func listTasks(ctx context.Context, tasks Tasks, _ taskArguments) (any, error) {
	all, err := tasks.List(ctx, false)
	if err != nil {
		return nil, err
	}
	list := make([]shownTask, 0, len(all))
	for i := range all {
		s := shown(&all[i])
		s.Error = ""
		list = append(list, s)
	}
	return map[string]any{"tasks": list}, nil
}

func readTask(ctx context.Context, tasks Tasks, a taskArguments) (any, error) {
	t, err := tasks.Get(ctx, a.ID)
	if err != nil {
		return nil, err
	}
	if t == nil {
		return nil, noTask(a.ID)
	}
	s := shown(t)
	if t.End != nil && t.End.State == v1alpha1.ToolCallStateSucceeded {
		text, err := tasks.Result(ctx, a.ID)
		if err != nil && !errors.Is(err, record.ErrNotFound) {
			return nil, err
		}
		s.Result = &text
	}
	return s, nil
}

func cancelTask(ctx context.Context, tasks Tasks, a taskArguments) (any, error) {
	t, err := tasks.Cancel(ctx, a.ID)
	if err != nil {
		return nil, err
	}
	if t == nil {
		return nil, noTask(a.ID)
	}
	return shown(t), nil
}

func noTask(id string) error {
	return Errorf("There is no background task %s in this session.", id)
}
