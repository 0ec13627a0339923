package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SubAgentTotals are totals of sub-agents.
type SubAgentTotals struct {
	// usage of their model calls.
	// +optional
	Usage Usage `json:"usage,omitempty"`
	// modelCalls is the number of their model calls that have ended.
	// +optional
	ModelCalls int32 `json:"modelCalls,omitempty"`
	// cost of their model calls, one item per currency. It is absent if no call had a price.
	// +optional
	// +listType=map
	// +listMapKey=currency
	// +kubebuilder:validation:MaxItems=4
	Cost []Cost `json:"cost,omitempty"`
	// unpricedModelCalls counts their model calls that cost does not include.
	// +optional
	UnpricedModelCalls int32 `json:"unpricedModelCalls,omitempty"`
	// payments is what they have paid for tool calls, one item per currency. It includes payments that may have been
	// made. It is absent if nothing was paid.
	// +optional
	// +listType=map
	// +listMapKey=currency
	// +kubebuilder:validation:MaxItems=4
	Payments []Cost `json:"payments,omitempty"`
}

// SubAgentsSummary counts the calls of a Turn that run as sub-agents, with the totals of those that have ended.
type SubAgentsSummary struct {
	// calls is the number of planned calls.
	// +optional
	Calls int32 `json:"calls,omitempty"`

	SubAgentTotals `json:",inline"`
}

// TurnSummary has the totals of a Turn.
type TurnSummary struct {
	// usage of all model calls of the Turn.
	// +optional
	Usage Usage `json:"usage,omitempty"`
	// modelCalls is the number of model calls that have ended.
	// +optional
	ModelCalls int32 `json:"modelCalls,omitempty"`
	// cost of the model calls, one item per currency. It is absent if no call had a price.
	// +optional
	// +listType=map
	// +listMapKey=currency
	// +kubebuilder:validation:MaxItems=4
	Cost []Cost `json:"cost,omitempty"`
	// unpricedModelCalls counts the model calls that cost does not include: their Model has no price, the provider has not
	// reported their token usage, or their price is in a fifth currency.
	// +optional
	UnpricedModelCalls int32 `json:"unpricedModelCalls,omitempty"`
	// payments is what the Turn has paid for tool calls, one item per currency. It includes payments that may have been
	// made. It is absent if nothing was paid.
	// +optional
	// +listType=map
	// +listMapKey=currency
	// +kubebuilder:validation:MaxItems=4
	Payments []Cost `json:"payments,omitempty"`
	// subAgents has the totals of the Turn's sub-agents, which usage, modelCalls and cost do not include. It is absent
	// without sub-agents.
	// +optional
	SubAgents *SubAgentsSummary `json:"subAgents,omitempty"`
	// compactions is the number of steps that have compacted the conversation. usage, modelCalls and cost include their
	// model calls.
	// +optional
	Compactions int32 `json:"compactions,omitempty"`
	// failedSummaries is the number of summaries for a compaction that no Model could write. After one of them the Turn
	// asks for another only if a provider refuses its prompt as too large.
	// +optional
	FailedSummaries int32 `json:"failedSummaries,omitempty"`
	// toolCalls is the number of planned tool calls.
	// +optional
	ToolCalls int32 `json:"toolCalls,omitempty"`
	// settledToolCalls is the number of tool calls that have their result.
	// +optional
	SettledToolCalls int32 `json:"settledToolCalls,omitempty"`
	// failedToolCalls is the number of tool calls that failed or have an unknown outcome, without the open step.
	// +optional
	FailedToolCalls int32 `json:"failedToolCalls,omitempty"`
	// calls summarizes settledToolCalls/toolCalls, and the number of calls that failed or have an unknown outcome, for
	// people to read.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Calls string `json:"calls,omitempty"`
	// startedAt is the time at which the Turn began.
	// +optional
	StartedAt *metav1.MicroTime `json:"startedAt,omitempty"`
	// finishedAt is the time at which the Turn's last step was closed.
	// +optional
	FinishedAt *metav1.MicroTime `json:"finishedAt,omitempty"`
	// timeToFirstToken is how long the first model that responded took from the call to the first text, reasoning or
	// tool call of its response, without earlier failed calls.
	// +optional
	TimeToFirstToken *metav1.Duration `json:"timeToFirstToken,omitempty"`
}
