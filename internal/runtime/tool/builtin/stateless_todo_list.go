package builtin

import "context"

// statelessTodoList lets the model keep a list of tasks. The conversation is the only place where the list is: each
// call has the whole of it, and returns it.
var statelessTodoList = Capability{
	Name:        "stateless_todo_list",
	Description: "Lets the model keep a list of tasks in the conversation.",
	Tools: []Tool{{
		Name: "write_todos",
		Description: "Writes your list of tasks, for work of three or more steps. Each call replaces the whole list. " +
			"Keep exactly one task in_progress, and mark a task completed only when it is done.",
		InputSchema: `{
  "type": "object",
  "properties": {
    "todos": {
      "type": "array",
      "maxItems": 100,
      "description": "All tasks, in order.",
      "items": {
        "type": "object",
        "properties": {
          "content": {"type": "string", "minLength": 1, "description": "The task as an order: Run the tests."},
          "activeForm": {"type": "string", "minLength": 1, "description": "The task in progress: Running the tests."},
          "status": {"type": "string", "enum": ["pending", "in_progress", "completed"]}
        },
        "required": ["content", "activeForm", "status"]
      }
    }
  },
  "required": ["todos"]
}`,
		Run: writeTodos,
	}},
}

// todo is one task of the list.
type todo struct {
	Content    string `json:"content"`
	ActiveForm string `json:"activeForm"`
	Status     string `json:"status"`
}

// todosResult is what write_todos returns.
type todosResult struct {
	Success    bool   `json:"success"`
	TotalTasks int    `json:"total_tasks"`
	Pending    int    `json:"pending"`
	InProgress int    `json:"in_progress"`
	Completed  int    `json:"completed"`
	Warning    string `json:"warning,omitempty"`
	Todos      []todo `json:"todos"`
}

func writeTodos(_ context.Context, call Call) (any, error) {
	var list struct {
		Todos []todo `json:"todos"`
	}
	if err := call.Decode(&list); err != nil {
		return nil, err
	}
	written := todosResult{Success: true, TotalTasks: len(list.Todos), Todos: list.Todos}
	for _, t := range list.Todos {
		switch t.Status {
		case "pending":
			written.Pending++
		case "in_progress":
			written.InProgress++
		default:
			written.Completed++
		}
	}
	switch {
	case written.InProgress > 1:
		written.Warning = "More than one task is in_progress. Work on one at a time."
	case written.InProgress == 0 && written.Pending > 0:
		written.Warning = "No task is in_progress. Mark the one that you work on."
	}
	return written, nil
}
