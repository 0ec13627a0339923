// Package semconv has the names of the OpenTelemetry conventions that Capstan uses: those for generative AI and MCP,
// which are in development and change from release to release, and its own. No other package writes such a name.
package semconv

// SchemaURL is the version of the conventions for generative AI that these names follow.
const SchemaURL = "https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev"

// Attributes of the conventions for generative AI.
const (
	OperationName      = "gen_ai.operation.name"
	ProviderName       = "gen_ai.provider.name"
	AgentName          = "gen_ai.agent.name"
	ConversationID     = "gen_ai.conversation.id"
	RequestModel       = "gen_ai.request.model"
	ResponseModel      = "gen_ai.response.model"
	ResponseID         = "gen_ai.response.id"
	FinishReasons      = "gen_ai.response.finish_reasons"
	TimeToFirstChunk   = "gen_ai.response.time_to_first_chunk"
	InputTokens        = "gen_ai.usage.input_tokens"
	OutputTokens       = "gen_ai.usage.output_tokens"
	CacheReadTokens    = "gen_ai.usage.cache_read.input_tokens"
	CacheWriteTokens   = "gen_ai.usage.cache_write.input_tokens"
	ToolName           = "gen_ai.tool.name"
	ToolCallID         = "gen_ai.tool.call.id"
	InputMessages      = "gen_ai.input.messages"
	OutputMessages     = "gen_ai.output.messages"
	ToolCallArguments  = "gen_ai.tool.call.arguments"
	ToolCallResult     = "gen_ai.tool.call.result"
	MCPMethod          = "mcp.method.name"
	ErrorType          = "error.type"
	KubernetesNS       = "k8s.namespace.name"
	ServiceName        = "capstan"
	OperationChat      = "chat"
	OperationAgent     = "invoke_agent"
	OperationTool      = "execute_tool"
	MCPMethodToolsCall = "tools/call"
)

// Attributes of Capstan.
const (
	Session       = "capstan.session.name"
	Turn          = "capstan.turn.name"
	TurnUID       = "capstan.turn.uid"
	TurnPhase     = "capstan.turn.phase"
	Step          = "capstan.step"
	Tries         = "capstan.model.tries"
	Iterations    = "capstan.turn.iterations"
	ToolExecutor  = "capstan.tool.executor"
	ToolAttempt   = "capstan.tool.attempt"
	SubAgentName  = "capstan.sub_agent.session"
	HookEvent     = "capstan.hook.event"
	HookDecision  = "capstan.hook.decision"
	SpanHook      = "hook"
	SpanReason    = "reason"
	SpanAct       = "act"
	SpanCompact   = "compact"
	ProviderOther = "capstan.simulated"
)
