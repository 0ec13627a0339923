package builtin

import (
	"context"
	"errors"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/schedule"
)

// scheduleClass makes the calls of a step that create and cancel Schedules run one after the other, so that they count
// each other.
const scheduleClass = "session_schedules"

// sessionSchedule lets the model send itself messages later (SCHED-01 to SCHED-04). A Schedule is named by its call, so
// that a repeated call finds it.
var sessionSchedule = Capability{
	Name:        schedule.Capability,
	Description: "Lets the model schedule messages to its Session: once, or again and again.",
	Risk:        v1alpha1.CapabilityRiskMedium,
	Tools: []Tool{
		{
			Name: schedule.CreateTool,
			Description: "Schedules a message to this session. At each of its times the message starts a new turn, as if the " +
				"user had sent it. Set exactly one of cron and at. At most 5 schedules can be active, and times are at least 300 " +
				"seconds apart.",
			SideEffect: v1alpha1.SideEffectIdempotent,
			InputSchema: `{
  "type": "object",
  "required": ["message"],
  "properties": {
    "message": {
      "type": "string",
      "minLength": 1,
      "maxLength": 16384,
      "description": "The message, written so that it can be understood on its own."
    },
    "cron": {
      "type": "string",
      "maxLength": 256,
      "description": "Cron expression of five fields (minute, hour, day of month, month, weekday), such as 0 9 * * 1-5."
    },
    "at": {
      "type": "string",
      "maxLength": 40,
      "description": "The single time, in RFC 3339 with an offset, such as 2030-01-31T09:00:00+01:00."
    },
    "timezone": {
      "type": "string",
      "maxLength": 64,
      "description": "Time zone of cron in the IANA database, such as Europe/Berlin. Default: UTC."
    }
  },
  "additionalProperties": false
}`,
			ConcurrencyClass: scheduleClass,
			Run:              withSchedules(createSchedule),
		},
		{
			Name:             schedule.ListTool,
			Description:      "Lists the schedules that were created in this session, with their next and last times.",
			InputSchema:      `{"type": "object", "properties": {}, "additionalProperties": false}`,
			ConcurrencyClass: scheduleClass,
			Run:              withSchedules(listSchedules),
		},
		{
			Name:        schedule.CancelTool,
			Description: "Cancels a schedule of this session. It stays in the list, and starts no further turns.",
			SideEffect:  v1alpha1.SideEffectIdempotent,
			InputSchema: `{
  "type": "object",
  "required": ["schedule_id"],
  "properties": {"schedule_id": {"type": "string", "pattern": "^[a-z0-9-]{1,63}$"}},
  "additionalProperties": false
}`,
			ConcurrencyClass: scheduleClass,
			Run:              withSchedules(cancelSchedule),
		},
	},
}

// shownSchedule is a Schedule as the model sees it (SCHED-02).
type shownSchedule struct {
	ID       string     `json:"schedule_id"`
	Type     string     `json:"type"`
	Message  string     `json:"message"`
	Cron     string     `json:"cron,omitempty"`
	TimeZone string     `json:"timezone,omitempty"`
	At       *time.Time `json:"at,omitempty"`
	Enabled  bool       `json:"enabled"`
	Next     *time.Time `json:"next_trigger,omitempty"`
	Last     *time.Time `json:"last_trigger,omitempty"`
	Count    int64      `json:"trigger_count"`
}

func shownScheduleOf(e *schedule.Entry) shownSchedule {
	s := shownSchedule{
		ID: e.Name, Type: "one_shot", Message: e.Message, Cron: e.Schedule, TimeZone: e.TimeZone, Enabled: e.Enabled,
		At: timeOf(e.At), Next: timeOf(e.Next), Last: timeOf(e.Last), Count: e.Ticks,
	}
	if e.Schedule != "" {
		s.Type = "recurring"
		if s.TimeZone == "" {
			s.TimeZone = "UTC"
		}
	}
	return s
}

func timeOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// scheduleArguments are those of all tools for Schedules.
type scheduleArguments struct {
	Message  string `json:"message"`
	Cron     string `json:"cron"`
	At       string `json:"at"`
	TimeZone string `json:"timezone"`
	ID       string `json:"schedule_id"`
}

// withSchedules returns the Run of a tool that needs the Schedules of the Session.
func withSchedules(
	run func(ctx context.Context, call Call, own Schedules, a scheduleArguments) (any, error),
) func(context.Context, Call) (any, error) {
	return using("schedules", func(s Services) Schedules { return s.Schedules }, run)
}

func createSchedule(ctx context.Context, call Call, own Schedules, a scheduleArguments) (any, error) {
	request := schedule.Request{Message: a.Message, Schedule: a.Cron, TimeZone: a.TimeZone}
	if a.At != "" {
		at, err := time.Parse(time.RFC3339, a.At)
		if err != nil {
			return nil, Errorf("The schedule was not created: at must be a time in RFC 3339, such as %s.",
				call.Now.UTC().Format(time.RFC3339))
		}
		request.At = at.UTC().Truncate(time.Second)
	}
	created, err := own.Create(ctx, request)
	var limit *schedule.LimitError
	if errors.As(err, &limit) {
		return nil, Errorf("The schedule was not created: %s.", limit)
	}
	if err != nil {
		return nil, err
	}
	return shownScheduleOf(created), nil
}

func listSchedules(ctx context.Context, _ Call, own Schedules, _ scheduleArguments) (any, error) {
	entries, err := own.List(ctx)
	if err != nil {
		return nil, err
	}
	list, enabled := make([]shownSchedule, 0, len(entries)), 0
	for i := range entries {
		list = append(list, shownScheduleOf(&entries[i]))
		if entries[i].Enabled {
			enabled++
		}
	}
	return map[string]any{"schedules": list, "enabled": enabled}, nil
}

func cancelSchedule(ctx context.Context, _ Call, own Schedules, a scheduleArguments) (any, error) {
	cancelled, err := own.Cancel(ctx, a.ID)
	if err != nil {
		return nil, err
	}
	if cancelled == nil {
		return nil, Errorf("There is no schedule %s in this session.", a.ID)
	}
	return shownScheduleOf(cancelled), nil
}
