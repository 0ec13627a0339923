package format

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
)

// The progress of a Turn as formats 1 and 2 store it. These types never change: a field of Turn.status that journals
// need gets its place here, and its conversion below.
type (
	progress struct {
		Phase         string     `json:"phase,omitempty"`
		Iteration     int32      `json:"iteration,omitempty"`
		Plan          *plan      `json:"plan,omitempty"`
		WaitsFor      []turnWait `json:"waitsFor,omitempty"`
		Model         string     `json:"model,omitempty"`
		ModelNotFound string     `json:"modelNotFound,omitempty"`
		Controls      *controls  `json:"controls,omitempty"`
		Users         string     `json:"users,omitempty"`
		SteeredBy     []string   `json:"steeredBy,omitempty"`
		ToolCalls     []toolCall `json:"toolCalls,omitempty"`
		Summary       *summary   `json:"summary,omitempty"`
		Recovered     string     `json:"recovered,omitempty"`
		Output        string     `json:"output,omitempty"`
		Error         *turnError `json:"error,omitempty"`
	}

	plan struct {
		Step       int32             `json:"step"`
		Phase      string            `json:"phase"`
		OpenedAt   int64             `json:"openedAt,omitempty"`
		Locale     string            `json:"locale,omitempty"`
		Attempt    int32             `json:"attempt,omitempty"`
		Model      string            `json:"model,omitempty"`
		NotBefore  *metav1.MicroTime `json:"notBefore,omitempty"`
		StopReason string            `json:"stopReason,omitempty"`
		Compacted  string            `json:"compacted,omitempty"`
		// PreviousResponseID was written by builds before 2026-11-23. No build has used it.
		PreviousResponseID string `json:"previousResponseID,omitempty"`
	}

	turnWait struct {
		Type    string            `json:"type"`
		Reason  string            `json:"reason,omitempty"`
		Until   *metav1.MicroTime `json:"until,omitempty"`
		Message string            `json:"message,omitempty"`
	}

	controls struct {
		ModelRef        *modelRef `json:"modelRef,omitempty"`
		Locale          string    `json:"locale,omitempty"`
		ReasoningEffort string    `json:"reasoningEffort,omitempty"`
	}

	modelRef struct {
		Name string `json:"name"`
	}

	toolCall struct {
		ID               string           `json:"id"`
		Name             string           `json:"name"`
		Executor         string           `json:"executor"`
		Background       string           `json:"background,omitempty"`
		SideEffect       string           `json:"sideEffect,omitempty"`
		Policy           string           `json:"policy,omitempty"`
		ApproveBy        *metav1.Time     `json:"approveBy,omitempty"`
		ConcurrencyClass string           `json:"concurrencyClass,omitempty"`
		ToolUID          types.UID        `json:"toolUID,omitempty"`
		ToolDigest       string           `json:"toolDigest,omitempty"`
		ToolGeneration   int64            `json:"toolGeneration,omitempty"`
		Timeout          *metav1.Duration `json:"timeout,omitempty"`
		Fingerprint      string           `json:"fingerprint,omitempty"`
		CallDigest       string           `json:"callDigest,omitempty"`
		Hints            []string         `json:"hints,omitempty"`
		Attempt          int32            `json:"attempt,omitempty"`
		NotBefore        *metav1.Time     `json:"notBefore,omitempty"`
		PodUID           types.UID        `json:"podUID,omitempty"`
		PodName          string           `json:"podName,omitempty"`
		SubAgent         *subAgent        `json:"subAgent,omitempty"`
		Input            *toolInput       `json:"input,omitempty"`
		State            string           `json:"state"`
		Reason           string           `json:"reason,omitempty"`
		Arguments        string           `json:"arguments,omitempty"`
		Preview          string           `json:"preview,omitempty"`
	}

	summary struct {
		Usage              usage             `json:"usage,omitzero"`
		ModelCalls         int32             `json:"modelCalls,omitempty"`
		Cost               []cost            `json:"cost,omitempty"`
		UnpricedModelCalls int32             `json:"unpricedModelCalls,omitempty"`
		Payments           []cost            `json:"payments,omitempty"`
		SubAgents          *subAgents        `json:"subAgents,omitempty"`
		ToolCalls          int32             `json:"toolCalls,omitempty"`
		SettledToolCalls   int32             `json:"settledToolCalls,omitempty"`
		FailedToolCalls    int32             `json:"failedToolCalls,omitempty"`
		Calls              string            `json:"calls,omitempty"`
		StartedAt          *metav1.MicroTime `json:"startedAt,omitempty"`
		FinishedAt         *metav1.MicroTime `json:"finishedAt,omitempty"`
		TimeToFirstToken   *metav1.Duration  `json:"firstToken,omitempty"`
		Compactions        int32             `json:"compactions,omitempty"`
		FailedSummaries    int32             `json:"failedSummaries,omitempty"`
	}

	subAgent struct {
		Name       string          `json:"name"`
		SessionUID types.UID       `json:"sessionUID"`
		Totals     *subAgentTotals `json:"totals,omitempty"`
	}

	subAgentTotals struct {
		Usage              usage  `json:"usage,omitzero"`
		ModelCalls         int32  `json:"modelCalls,omitempty"`
		Cost               []cost `json:"cost,omitempty"`
		UnpricedModelCalls int32  `json:"unpricedModelCalls,omitempty"`
		Payments           []cost `json:"payments,omitempty"`
	}

	subAgents struct {
		Calls  int32           `json:"calls,omitempty"`
		Totals *subAgentTotals `json:"totals,omitempty"`
	}

	usage struct {
		InputTokens  int64 `json:"inputTokens,omitempty"`
		OutputTokens int64 `json:"outputTokens,omitempty"`
		TotalTokens  int64 `json:"totalTokens,omitempty"`
	}

	cost struct {
		Currency string `json:"currency"`
		Amount   string `json:"amount"`
	}

	turnError struct {
		Code    string            `json:"code"`
		Message string            `json:"message,omitempty"`
		Fields  map[string]string `json:"fields,omitempty"`
	}
)

// progressFrom converts a Turn's progress to its stored form.
func progressFrom(p *v1alpha1.TurnProgress) *progress {
	if p == nil {
		return nil
	}
	stored := &progress{
		Phase: string(p.Phase), Iteration: p.Iteration, Model: p.Model, ModelNotFound: p.ModelNotFound,
		Recovered: string(p.Recovered), Output: p.Output, Users: string(p.Users),
		SteeredBy: p.SteeredBy,
		WaitsFor: each(p.WaitsFor, func(w v1alpha1.TurnWait) turnWait {
			return turnWait{Type: string(w.Type), Reason: w.Reason, Until: w.Until, Message: w.Message}
		}),
		ToolCalls: each(p.ToolCalls, callFrom),
		Summary:   summaryFrom(p.Summary),
	}
	if p.Plan != nil {
		stored.Plan = &plan{
			Step: p.Plan.Step, Phase: string(p.Plan.Phase), OpenedAt: p.Plan.OpenedAtOrdinal,
			Locale: p.Plan.Locale, Attempt: p.Plan.Attempt,
			Model: p.Plan.Model, NotBefore: p.Plan.NotBefore, StopReason: string(p.Plan.StopReason),
			Compacted: string(p.Plan.Compacted),
		}
	}
	if p.Controls != nil {
		stored.Controls = &controls{
			Locale: p.Controls.Locale, ReasoningEffort: string(p.Controls.ReasoningEffort),
		}
		if ref := p.Controls.ModelRef; ref != nil {
			stored.Controls.ModelRef = &modelRef{Name: ref.Name}
		}
	}
	if p.Error != nil {
		stored.Error = &turnError{Code: string(p.Error.Code), Message: p.Error.Message, Fields: p.Error.Fields}
	}
	return stored
}

// progress converts the stored form to a Turn's progress.
func (p *progress) progress() *v1alpha1.TurnProgress {
	if p == nil {
		return nil
	}
	read := &v1alpha1.TurnProgress{
		Phase: v1alpha1.TurnPhase(p.Phase), Iteration: p.Iteration, Model: p.Model, ModelNotFound: p.ModelNotFound,
		Recovered: v1alpha1.TurnRecovery(p.Recovered), Output: p.Output, Users: v1alpha1.TurnUsers(p.Users),
		SteeredBy: p.SteeredBy,
		WaitsFor: each(p.WaitsFor, func(w turnWait) v1alpha1.TurnWait {
			return v1alpha1.TurnWait{Type: v1alpha1.WaitType(w.Type), Reason: w.Reason, Until: w.Until, Message: w.Message}
		}),
		ToolCalls: each(p.ToolCalls, toolCall.call),
		Summary:   p.Summary.summary(),
	}
	if p.Plan != nil {
		read.Plan = &v1alpha1.TurnPlan{
			Step: p.Plan.Step, Phase: v1alpha1.PlanPhase(p.Plan.Phase), OpenedAtOrdinal: p.Plan.OpenedAt,
			Locale: p.Plan.Locale, Attempt: p.Plan.Attempt,
			Model: p.Plan.Model, NotBefore: p.Plan.NotBefore, StopReason: v1alpha1.StopReason(p.Plan.StopReason),
			Compacted: v1alpha1.CompactionTrigger(p.Plan.Compacted),
		}
	}
	if p.Controls != nil {
		read.Controls = &v1alpha1.TurnControls{
			Locale: p.Controls.Locale, ReasoningEffort: v1alpha1.ReasoningEffort(p.Controls.ReasoningEffort),
		}
		if ref := p.Controls.ModelRef; ref != nil {
			read.Controls.ModelRef = &v1alpha1.LocalReference{Name: ref.Name}
		}
	}
	if p.Error != nil {
		read.Error = &v1alpha1.TurnError{
			Code:    v1alpha1.ErrorCode(p.Error.Code),
			Message: p.Error.Message,
			Fields:  p.Error.Fields,
		}
	}
	return read
}

func callFrom(c v1alpha1.ToolCall) toolCall {
	return toolCall{
		ID: c.ID, Name: c.Name, Executor: string(c.Executor), Background: c.Background,
		SideEffect: string(c.SideEffect), Policy: string(c.Policy),
		ApproveBy: c.ApproveBy, ConcurrencyClass: c.ConcurrencyClass, ToolUID: c.ToolUID, ToolDigest: c.ToolDigest,
		ToolGeneration: c.ToolGeneration, Timeout: c.Timeout, Fingerprint: c.Fingerprint, CallDigest: c.CallDigest,
		Attempt: c.Attempt, NotBefore: c.NotBefore, PodUID: c.PodUID, PodName: c.PodName, State: string(c.State),
		Reason: c.Reason, Arguments: c.Arguments, Preview: c.Preview, SubAgent: subAgentFrom(c.SubAgent),
		Hints: each(c.Hints, func(h v1alpha1.ToolHint) string { return string(h) }), Input: inputFrom(c.Input),
	}
}

func (c toolCall) call() v1alpha1.ToolCall {
	return v1alpha1.ToolCall{
		ID: c.ID, Name: c.Name, Executor: v1alpha1.ToolExecutor(c.Executor), Background: c.Background,
		SideEffect: v1alpha1.SideEffect(c.SideEffect),
		Policy:     v1alpha1.ToolPolicy(c.Policy), ApproveBy: c.ApproveBy, ConcurrencyClass: c.ConcurrencyClass,
		ToolUID: c.ToolUID, ToolDigest: c.ToolDigest, ToolGeneration: c.ToolGeneration, Timeout: c.Timeout,
		Fingerprint: c.Fingerprint, CallDigest: c.CallDigest, Attempt: c.Attempt, NotBefore: c.NotBefore,
		PodUID: c.PodUID, PodName: c.PodName, State: v1alpha1.ToolCallState(c.State), Reason: c.Reason,
		Arguments: c.Arguments, Preview: c.Preview, SubAgent: c.SubAgent.reference(),
		Hints: each(c.Hints, func(h string) v1alpha1.ToolHint { return v1alpha1.ToolHint(h) }), Input: c.Input.input(),
	}
}

func summaryFrom(s *v1alpha1.TurnSummary) *summary {
	if s == nil {
		return nil
	}
	return &summary{
		Usage: usage(s.Usage), ModelCalls: s.ModelCalls, UnpricedModelCalls: s.UnpricedModelCalls, ToolCalls: s.ToolCalls,
		SettledToolCalls: s.SettledToolCalls, FailedToolCalls: s.FailedToolCalls, Calls: s.Calls,
		StartedAt: s.StartedAt, FinishedAt: s.FinishedAt, TimeToFirstToken: s.TimeToFirstToken,
		Cost: costsFrom(s.Cost), Payments: costsFrom(s.Payments), SubAgents: subAgentsFrom(s.SubAgents),
		Compactions: s.Compactions, FailedSummaries: s.FailedSummaries,
	}
}

func (s *summary) summary() *v1alpha1.TurnSummary {
	if s == nil {
		return nil
	}
	return &v1alpha1.TurnSummary{
		Usage: v1alpha1.Usage(s.Usage), ModelCalls: s.ModelCalls, UnpricedModelCalls: s.UnpricedModelCalls,
		ToolCalls: s.ToolCalls, SettledToolCalls: s.SettledToolCalls, FailedToolCalls: s.FailedToolCalls, Calls: s.Calls,
		StartedAt: s.StartedAt, FinishedAt: s.FinishedAt, TimeToFirstToken: s.TimeToFirstToken,
		Cost: costsOf(s.Cost), Payments: costsOf(s.Payments), SubAgents: s.SubAgents.summary(),
		Compactions: s.Compactions, FailedSummaries: s.FailedSummaries,
	}
}

func costsFrom(costs []v1alpha1.Cost) []cost {
	return each(costs, func(c v1alpha1.Cost) cost { return cost(c) })
}

func costsOf(costs []cost) []v1alpha1.Cost {
	return each(costs, func(c cost) v1alpha1.Cost { return v1alpha1.Cost(c) })
}

// payment is an event.Payment as formats 1 and 2 store it.
type payment struct {
	State       string `json:"state"`
	Amount      string `json:"amount"`
	Currency    string `json:"currency"`
	Rail        string `json:"rail"`
	Network     string `json:"network"`
	Asset       string `json:"asset"`
	Payee       string `json:"payee"`
	Transaction string `json:"transaction,omitempty"`
}

// settledCall is a SettledCall as formats 1 and 2 store it.
type settledCall struct {
	ID         string            `json:"id"`
	Source     types.UID         `json:"source,omitempty"`
	Result     *string           `json:"result,omitempty"`
	Error      *string           `json:"error,omitempty"`
	Decision   string            `json:"decision,omitempty"`
	By         string            `json:"by,omitempty"`
	State      string            `json:"state,omitempty"`
	Reason     string            `json:"reason,omitempty"`
	StartedAt  *metav1.MicroTime `json:"startedAt,omitempty"`
	FinishedAt *metav1.MicroTime `json:"finishedAt,omitempty"`
	Image      string            `json:"image,omitempty"`
	PodUID     types.UID         `json:"podUID,omitempty"`
	Hooks      []hookRun         `json:"hooks,omitempty"`
	Original   string            `json:"original,omitempty"`
	SubAgent   *subAgentTotals   `json:"subAgent,omitempty"`
	Payment    *payment          `json:"payment,omitempty"`
	Asked      *askedInput       `json:"asked,omitempty"`
	Answered   *answeredInput    `json:"answered,omitempty"`
}

func settledFrom(c SettledCall) settledCall {
	return settledCall{
		ID: c.ID, Source: c.Source, Result: c.Result, Error: c.Error, Decision: string(c.Decision), By: c.By,
		State: string(c.State), Reason: c.Reason, StartedAt: c.StartedAt, FinishedAt: c.FinishedAt, Image: c.Image,
		PodUID: c.PodUID, Hooks: each(c.Hooks, hookRunFrom), Original: c.Original,
		SubAgent: totalsFrom(c.SubAgent), Payment: (*payment)(c.Payment), Asked: askedFrom(c.Asked),
		Answered: answeredFrom(c.Answered),
	}
}

func (c settledCall) call() SettledCall {
	return SettledCall{
		ID: c.ID, Source: c.Source, Result: c.Result, Error: c.Error, Decision: v1alpha1.Decision(c.Decision), By: c.By,
		State: v1alpha1.ToolCallState(c.State), Reason: c.Reason, StartedAt: c.StartedAt, FinishedAt: c.FinishedAt,
		Image: c.Image, PodUID: c.PodUID, Hooks: each(c.Hooks, hookRun.run), Original: c.Original,
		SubAgent: c.SubAgent.totals(), Payment: (*event.Payment)(c.Payment), Asked: c.Asked.asked(),
		Answered: c.Answered.answered(),
	}
}

// recordedTurn is a RecordedTurn as formats 1 and 2 store it.
type recordedTurn struct {
	Name        string    `json:"name"`
	UID         types.UID `json:"uid"`
	Digest      string    `json:"digest"`
	SteeredInto *turnName `json:"steeredInto,omitempty"`
}

type turnName struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
}

func turnFrom(t RecordedTurn) recordedTurn {
	stored := recordedTurn{Name: t.Name, UID: t.UID, Digest: t.Digest}
	if t.SteeredInto != nil {
		stored.SteeredInto = &turnName{Name: t.SteeredInto.Name, UID: t.SteeredInto.UID}
	}
	return stored
}

func (t recordedTurn) turn() RecordedTurn {
	read := RecordedTurn{Name: t.Name, UID: t.UID, Digest: t.Digest}
	if t.SteeredInto != nil {
		read.SteeredInto = &v1alpha1.JournalTurn{Name: t.SteeredInto.Name, UID: t.SteeredInto.UID}
	}
	return read
}

// checkpoint is a Checkpoint as formats 1 and 2 store it.
type checkpoint struct {
	From       int64          `json:"from"`
	Events     int64          `json:"events"`
	Bytes      int64          `json:"bytes"`
	Transcript []byte         `json:"transcript,omitempty"`
	Turns      []recordedTurn `json:"turns,omitempty"`
	Context    *contextRef    `json:"context,omitempty"`

	Compacted    bool  `json:"compacted,omitempty"`
	Conversation int64 `json:"conversation,omitempty"`
	// Images is for builds that do not know stored images: see eventV2.
	Images bool `json:"images,omitempty"`
}

func checkpointFrom(c *Checkpoint) *checkpoint {
	if c == nil {
		return nil
	}
	return &checkpoint{
		From: c.From, Events: c.Events, Bytes: c.Bytes, Transcript: c.Transcript, Turns: each(c.Turns, turnFrom),
		Context: (*contextRef)(c.Context), Compacted: c.Compacted, Conversation: c.Conversation,
		Images: c.Images,
	}
}

func (c *checkpoint) checkpoint() *Checkpoint {
	if c == nil {
		return nil
	}
	return &Checkpoint{
		From: c.From, Events: c.Events, Bytes: c.Bytes, Transcript: c.Transcript, Turns: each(c.Turns, recordedTurn.turn),
		Context: (*ContextRef)(c.Context), Compacted: c.Compacted, Conversation: c.Conversation, Images: c.Images,
	}
}

// plannedCall, claimedCall and partialAnswer are stored by formats 1 and 2 as they are here.
type (
	// pinnedContext and contextRef are of format 2 alone.
	pinnedContext struct {
		Digest  string `json:"digest"`
		Content []byte `json:"content,omitempty"`
	}
	contextRef struct {
		Turn    types.UID `json:"turn"`
		Digest  string    `json:"digest"`
		Ordinal int64     `json:"ordinal"`
	}
	plannedCall struct {
		ID         string `json:"id"`
		ProviderID string `json:"providerID,omitempty"`
		Name       string `json:"name"`
		Arguments  string `json:"arguments,omitempty"`
		Refusal    string `json:"refusal,omitempty"`
		Display    string `json:"displayName,omitempty"`

		Hooks []hookRun `json:"hooks,omitempty"`
	}

	hookRun struct {
		Hook     string `json:"hook"`
		Decision string `json:"decision"`
		Reason   string `json:"reason,omitempty"`
	}

	hookedPrompt struct {
		Text        *string   `json:"text,omitempty"`
		Blocked     string    `json:"blocked,omitempty"`
		UserMessage string    `json:"userMessage,omitempty"`
		Hooks       []hookRun `json:"hooks,omitempty"`
	}

	hookedEnd struct {
		Hooks []hookRun `json:"hooks,omitempty"`
	}

	hookedPart struct {
		Offset  int64  `json:"offset,omitempty"`
		Total   int64  `json:"total"`
		Content []byte `json:"content,omitempty"`
	}

	partialAnswer struct {
		Message string `json:"message"`
		Model   string `json:"model,omitempty"`
		Holder  string `json:"holder,omitempty"`
		Content string `json:"content"`
		Offset  int64  `json:"offset,omitempty"`
		Text    string `json:"text,omitempty"`
	}
)

func plannedFrom(c PlannedCall) plannedCall {
	return plannedCall{
		ID: c.ID, ProviderID: c.ProviderID, Name: c.Name, Arguments: c.Arguments, Refusal: c.Refusal, Display: c.Display,
		Hooks: each(c.Hooks, hookRunFrom),
	}
}

func (c plannedCall) call() PlannedCall {
	return PlannedCall{
		ID: c.ID, ProviderID: c.ProviderID, Name: c.Name, Arguments: c.Arguments, Refusal: c.Refusal, Display: c.Display,
		Hooks: each(c.Hooks, hookRun.run),
	}
}

func partialFrom(p *PartialAnswer) *partialAnswer {
	if p == nil {
		return nil
	}
	return &partialAnswer{
		Message: p.Message, Model: p.Model, Holder: p.Holder, Content: string(p.Content), Offset: p.Offset, Text: p.Text,
	}
}

func (p *partialAnswer) partial() *PartialAnswer {
	if p == nil {
		return nil
	}
	return &PartialAnswer{
		Message: p.Message, Model: p.Model, Holder: p.Holder, Content: PartialContent(p.Content), Offset: p.Offset,
		Text: p.Text,
	}
}
