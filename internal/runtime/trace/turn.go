package trace

import (
	"cmp"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/semconv"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// Of returns the spans of a closed step, and that of the Turn if the step is its last one. calls are the tool calls
// that the step has planned or carried out, as the status had them while it was open. With content, spans have the
// texts of users, models and tools.
func Of(t turnstate.Turn, calls []v1alpha1.ToolCall, closed *journal.Closed, content bool) []Span {
	c := collector{
		turn: t, trace: t.Trace(), step: closed.Step, exec: event.ExecID(closed.Step, 1), closed: closed.Time.Time,
		content: content, executors: map[string]v1alpha1.ToolExecutor{}, started: map[string]start{},
	}
	if sum := closed.Transition.Summary; sum != nil {
		if sum.StartedAt != nil {
			c.began = sum.StartedAt.Time
		}
		if sum.FinishedAt != nil {
			c.closed = sum.FinishedAt.Time
		}
	}
	for _, call := range calls {
		c.executors[call.ID] = call.Executor
	}
	for _, e := range closed.Events {
		c.add(e)
	}
	if c.tools > 0 {
		c.act()
	}
	if p := closed.Transition.Plan; p != nil && p.Phase == v1alpha1.PlanPhaseComplete {
		c.root(closed.Transition)
	}
	return c.spans
}

// collector makes the spans of one step.
type collector struct {
	turn  turnstate.Turn
	trace event.Trace
	step  int32
	exec  string
	// began is when the Turn began, and closed when the step was closed. No span is outside of that.
	began, closed time.Time
	content       bool
	executors     map[string]v1alpha1.ToolExecutor

	spans []Span
	// asked is when the reason step began, requested the name of the model that it called first, and models the number of
	// its model calls so far.
	asked     time.Time
	requested string
	models    int
	// started are the tool calls that have started, by id, tools the number of spans of calls, and first the start of the
	// first one.
	started map[string]start
	tools   int
	first   time.Time
	// input and output are the user's message and the newest text of the model, if the spans have content.
	input, output string
}

// start is the start of a tool call.
type start struct {
	at   time.Time
	data event.ToolStarted
}

// add takes an event of the step into account. One that does not match its type is left out.
func (c *collector) add(e event.Event) {
	switch e.Type {
	case event.TypeInputMessage:
		if data, err := event.Decode[event.InputMessage](e); err == nil && c.content {
			c.input = messages(data.Message)
		}
	case event.TypeReasonStarted:
		c.asked = e.Time.Time
		if data, err := event.Decode[event.ReasonStarted](e); err == nil {
			c.requested = data.Model
		}
	case event.TypeLLMGeneration:
		c.model(e)
	case event.TypeOutputMessageCompleted:
		c.response(e)
	case event.TypeReasonCompleted:
		c.reason(e)
	case event.TypeContextCompacting:
		c.asked = e.Time.Time
	case event.TypeContextCompacted:
		c.compact(e)
	case event.TypeToolStarted:
		if data, err := event.Decode[event.ToolStarted](e); err == nil {
			c.started[data.ToolCall.ID] = start{e.Time.Time, data}
		}
	case event.TypeToolCompleted:
		c.tool(e)
	}
}

// span adds a span with the attributes that all spans of a Turn have.
func (c *collector) span(s Span) {
	s.Trace, s.Flags = c.trace.ID, c.trace.Flags
	s.Start, s.End = c.within(s.Start), c.within(s.End)
	if s.Start.After(s.End) {
		s.Start = s.End
	}
	s.Attributes = append([]attribute.KeyValue{
		attribute.String(semconv.ConversationID, string(c.turn.Session.UID)),
		attribute.String(semconv.AgentName, c.agent()),
		attribute.String(semconv.KubernetesNS, c.turn.Session.Namespace),
		attribute.String(semconv.Session, c.turn.Session.Name),
		attribute.String(semconv.Turn, c.turn.Ref.Name),
		attribute.String(semconv.TurnUID, string(c.turn.Ref.UID)),
	}, s.Attributes...)
	if s.Error != "" {
		s.Attributes = append(s.Attributes, attribute.String(semconv.ErrorType, s.Error))
	}
	c.spans = append(c.spans, s)
}

// within moves a time into the duration of the Turn: a kubelet reports whole seconds, and clocks differ.
func (c *collector) within(at time.Time) time.Time {
	switch {
	case at.Before(c.began):
		return c.began
	case at.After(c.closed):
		return c.closed
	default:
		return at
	}
}

// agent is the name of the agent: that of the Agent, or of the Harness where the Session has none.
func (c *collector) agent() string {
	return cmp.Or(c.turn.Agent, c.turn.Harness)
}

// reason adds the span of the reason step.
func (c *collector) reason(e event.Event) {
	data, err := event.Decode[event.ReasonCompleted](e)
	if err != nil {
		return
	}
	s := Span{
		ID: event.StepSpan(c.turn.Ref.UID, c.exec), Parent: event.TurnSpan(c.turn.Ref.UID), Name: semconv.SpanReason,
		Start: c.asked, End: e.Time.Time, Attributes: []attribute.KeyValue{attribute.Int64(semconv.Step, int64(c.step))},
	}
	if !data.Success {
		s.Error = string(v1alpha1.ErrorCodeProcessingError)
	}
	c.span(s)
}

// compact adds the span of a step that has compacted the conversation.
func (c *collector) compact(e event.Event) {
	c.span(Span{
		ID: event.StepSpan(c.turn.Ref.UID, c.exec), Parent: event.TurnSpan(c.turn.Ref.UID), Name: semconv.SpanCompact,
		Start: c.asked, End: e.Time.Time, Attributes: []attribute.KeyValue{attribute.Int64(semconv.Step, int64(c.step))},
	})
}

// model adds the span of a model call.
func (c *collector) model(e event.Event) {
	data, err := event.Decode[event.LLMGeneration](e)
	if err != nil {
		return
	}
	requested := data.Model
	if c.models == 0 {
		requested = cmp.Or(c.requested, data.Model)
	}
	s := Span{
		ID: event.ModelSpan(c.turn.Ref.UID, c.exec, c.models), Parent: event.StepSpan(c.turn.Ref.UID, c.exec),
		Name: semconv.OperationChat + " " + requested, Client: true, End: e.Time.Time,
		Attributes: []attribute.KeyValue{
			attribute.String(semconv.OperationName, semconv.OperationChat),
			attribute.String(semconv.ProviderName, provider(data.Provider)),
			attribute.String(semconv.RequestModel, requested),
			attribute.Int64(semconv.Tries, int64(max(data.Tries, 1))),
		},
	}
	c.models++
	if c.content && c.input != "" {
		s.Attributes = append(s.Attributes, attribute.String(semconv.InputMessages, c.input))
	}
	if data.DurationMS != nil {
		s.Start = e.Time.Add(-time.Duration(*data.DurationMS) * time.Millisecond)
	}
	if s.Start.Before(c.asked) {
		s.Start = c.asked // The duration is in milliseconds, the time is not.
	}
	if !data.Success {
		s.Error = cmp.Or(data.ErrorCode, string(v1alpha1.ErrorCodeProcessingError))
		c.span(s)
		return
	}
	s.Attributes = append(s.Attributes, attribute.String(semconv.ResponseModel, data.Model))
	s.Attributes = append(s.Attributes, usage(data.Usage)...)
	if data.ResponseID != "" {
		s.Attributes = append(s.Attributes, attribute.String(semconv.ResponseID, data.ResponseID))
	}
	if data.FinishReason != "" {
		s.Attributes = append(s.Attributes, attribute.StringSlice(semconv.FinishReasons, []string{data.FinishReason}))
	}
	if data.TimeToFirstTokenMS != nil {
		s.Attributes = append(s.Attributes,
			attribute.Float64(semconv.TimeToFirstChunk, float64(*data.TimeToFirstTokenMS)/1000))
	}
	c.span(s)
}

// response adds the text of the response to the span of the model call that has returned it.
func (c *collector) response(e event.Event) {
	data, err := event.Decode[event.OutputMessageCompleted](e)
	if err != nil || !c.content {
		return
	}
	c.output = messages(data.Message)
	if c.models > 0 && data.ErrorCode == "" {
		last := &c.spans[len(c.spans)-1]
		last.Attributes = append(last.Attributes, attribute.String(semconv.OutputMessages, c.output))
	}
}

// act adds the span of the act step, around those of its calls. No event has the time at which it began.
func (c *collector) act() {
	c.span(Span{
		ID: event.StepSpan(c.turn.Ref.UID, c.exec), Parent: event.TurnSpan(c.turn.Ref.UID), Name: semconv.SpanAct,
		Start: c.first, End: c.closed, Attributes: []attribute.KeyValue{attribute.Int64(semconv.Step, int64(c.step))},
	})
}

// tool adds the span of a tool call.
func (c *collector) tool(e event.Event) {
	data, err := event.Decode[event.ToolCompleted](e)
	if err != nil {
		return
	}
	s := Span{
		ID: event.ToolSpan(c.turn.Ref.UID, c.exec, data.ToolCallID), Parent: event.StepSpan(c.turn.Ref.UID, c.exec),
		Name: semconv.OperationTool + " " + data.ToolName, End: e.Time.Time,
		Attributes: []attribute.KeyValue{
			attribute.String(semconv.OperationName, semconv.OperationTool),
			attribute.String(semconv.ToolName, data.ToolName),
			attribute.String(semconv.ToolCallID, data.ToolCallID),
		},
	}
	if executor := c.executors[data.ToolCallID]; executor != "" {
		s.Attributes = append(s.Attributes, attribute.String(semconv.ToolExecutor, string(executor)))
		if executor == v1alpha1.ToolExecutorMCP {
			s.Client = true
			s.Attributes = append(s.Attributes, attribute.String(semconv.MCPMethod, semconv.MCPMethodToolsCall))
		}
	}
	s.Start = s.End
	if began, ok := c.started[data.ToolCallID]; ok {
		s.Start = began.at
		s.Attributes = append(s.Attributes, attribute.Int64(semconv.ToolAttempt, int64(max(began.data.Attempt, 1))))
		if c.content {
			s.Attributes = append(s.Attributes,
				attribute.String(semconv.ToolCallArguments, bounded(began.data.ToolCall.Arguments)))
		}
	}
	if c.tools == 0 || s.Start.Before(c.first) {
		c.first = s.Start
	}
	c.tools++
	if !data.Success {
		s.Error = data.Status
	}
	if c.content {
		s.Attributes = append(s.Attributes, attribute.String(semconv.ToolCallResult, bounded(textOf(data))))
	}
	c.span(s)
}

// root adds the span of the Turn.
func (c *collector) root(after v1alpha1.TurnProgress) {
	s := Span{
		ID: event.TurnSpan(c.turn.Ref.UID), Parent: c.trace.Parent, Remote: c.trace.Parent != "",
		Name: semconv.OperationAgent + " " + c.agent(), Start: c.began, End: c.closed,
		Attributes: []attribute.KeyValue{
			attribute.String(semconv.OperationName, semconv.OperationAgent),
			attribute.String(semconv.TurnPhase, string(after.Phase)),
			attribute.Int64(semconv.Iterations, int64(after.Iteration)),
		},
	}
	if sum := after.Summary; sum != nil {
		s.Attributes = append(s.Attributes, usage(event.UsageOf(sum.Usage))...)
	}
	if after.Plan != nil && after.Plan.StopReason != "" {
		s.Attributes = append(s.Attributes,
			attribute.StringSlice(semconv.FinishReasons, []string{string(after.Plan.StopReason)}))
	}
	if after.Phase == v1alpha1.TurnPhaseFailed {
		s.Error = string(v1alpha1.ErrorCodeProcessingError)
		if after.Error != nil {
			s.Error = string(after.Error.Code)
		}
	}
	if c.content && c.output != "" {
		s.Attributes = append(s.Attributes, attribute.String(semconv.OutputMessages, c.output))
	}
	c.span(s)
}
