package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// MaxBudgetReservations is the number of model calls that may be open under one Budget.
const MaxBudgetReservations = 256

// BudgetUnit is what a Budget counts.
// +kubebuilder:validation:Enum=Currency;Tokens
type BudgetUnit string

const (
	// BudgetUnitCurrency counts the cost of model calls, by the prices of their Models.
	BudgetUnitCurrency BudgetUnit = "Currency"
	// BudgetUnitTokens counts the tokens that models read and write.
	BudgetUnitTokens BudgetUnit = "Tokens"
)

// BudgetWindow is the period that the limit of a Budget is for.
// +kubebuilder:validation:Enum=Total;Day;Week;Month
type BudgetWindow string

const (
	// BudgetWindowTotal is the whole life of the Budget.
	BudgetWindowTotal BudgetWindow = "Total"
	// BudgetWindowDay is a calendar day.
	BudgetWindowDay BudgetWindow = "Day"
	// BudgetWindowWeek is a calendar week, from Monday on.
	BudgetWindowWeek BudgetWindow = "Week"
	// BudgetWindowMonth is a calendar month.
	BudgetWindowMonth BudgetWindow = "Month"
)

// BudgetOnExhausted is what happens to a Turn whose next model call does not fit into an exhausted Budget.
// +kubebuilder:validation:Enum=Pause;End
type BudgetOnExhausted string

const (
	// BudgetOnExhaustedPause makes the Turn wait until there is room.
	BudgetOnExhaustedPause BudgetOnExhausted = "Pause"
	// BudgetOnExhaustedEnd ends the Turn.
	BudgetOnExhaustedEnd BudgetOnExhausted = "End"
)

// BudgetSelectorOperator relates the label of a Session to values.
// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
type BudgetSelectorOperator string

const (
	// BudgetSelectorOperatorIn: the Session has the label, with one of the values.
	BudgetSelectorOperatorIn BudgetSelectorOperator = "In"
	// BudgetSelectorOperatorNotIn: the Session does not have the label with one of the values.
	BudgetSelectorOperatorNotIn BudgetSelectorOperator = "NotIn"
	// BudgetSelectorOperatorExists: the Session has the label.
	BudgetSelectorOperatorExists BudgetSelectorOperator = "Exists"
	// BudgetSelectorOperatorDoesNotExist: the Session does not have the label.
	BudgetSelectorOperatorDoesNotExist BudgetSelectorOperator = "DoesNotExist"
)

// BudgetSelectorValue is the value of a label.
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`
type BudgetSelectorValue string

// BudgetSelectorRequirement is a condition on one label of a Session.
// +kubebuilder:validation:XValidation:rule="(self.operator in ['In', 'NotIn']) == has(self.values)",message="values must be set with the operators In and NotIn, and only with them."
type BudgetSelectorRequirement struct {
	// key of the label.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$`
	Key string `json:"key"`
	// operator is In, NotIn, Exists or DoesNotExist.
	// +required
	Operator BudgetSelectorOperator `json:"operator"`
	// values of the label, with In and NotIn.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Values []BudgetSelectorValue `json:"values,omitempty"`
}

// BudgetSelector selects Sessions by their labels, as a label selector does. All of its conditions must hold. Without
// any it selects every Session of the namespace.
type BudgetSelector struct {
	// matchLabels are labels that a Session must have.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	MatchLabels map[string]BudgetSelectorValue `json:"matchLabels,omitempty"`
	// matchExpressions are conditions on labels of a Session.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	MatchExpressions []BudgetSelectorRequirement `json:"matchExpressions,omitempty"`
}

// BudgetLimit is an amount that a Budget permits, as a decimal that is not negative.
// +kubebuilder:validation:MaxLength=19
// +kubebuilder:validation:XValidation:rule="self.matches('^(0|[1-9][0-9]{0,11})([.][0-9]{1,6})?$')",message="a limit is a decimal such as '100' or '2.50': at most twelve digits before and six after the decimal point, without a sign."
type BudgetLimit string

// BudgetSpec is a limit for the model calls of Sessions.
// +kubebuilder:validation:XValidation:rule="(self.unit == 'Currency') == has(self.currency)",message="currency must be set with the unit Currency, and only with it."
// +kubebuilder:validation:XValidation:rule="self.unit != 'Tokens' || (!self.limit.contains('.') && (!has(self.softLimit) || !self.softLimit.contains('.')))",message="limits in tokens are whole numbers."
// +kubebuilder:validation:XValidation:rule="!has(self.softLimit) || double(self.softLimit) <= double(self.limit)",message="softLimit must not exceed limit."
// +kubebuilder:validation:XValidation:rule="self.unit == oldSelf.unit && has(self.currency) == has(oldSelf.currency) && (!has(self.currency) || self.currency == oldSelf.currency)",message="unit and currency cannot be changed: the amounts in status are in them. Create a Budget with another name."
// +kubebuilder:validation:XValidation:rule="!has(self.timeZone) || self.window != 'Total'",message="timeZone is for the windows Day, Week and Month."
type BudgetSpec struct {
	// sessionSelector selects Sessions of the namespace by their labels. The model calls of a sub-agent count for the
	// Session at the top of its tree, whose labels decide. An empty selector, `{}`, selects every Session of the
	// namespace.
	// +required
	SessionSelector BudgetSelector `json:"sessionSelector"` //nolint:kubeapilinter // {} selects everything.
	// unit is Currency or Tokens. It cannot be changed.
	// +required
	Unit BudgetUnit `json:"unit"`
	// currency of the limits with the unit Currency, the three capital letters of ISO 4217. It is that of the prices of
	// the Models. Sessions cannot use a Model with another currency, without a price, or without maxOutputTokens. It
	// cannot be changed.
	// +optional
	// +kubebuilder:validation:MaxLength=3
	// +kubebuilder:validation:Pattern=`^[A-Z]{3}$`
	Currency string `json:"currency,omitempty"`
	// limit is the most that the Sessions may spend in one window, a decimal such as "100" or "2.50" with at most six
	// places; with the unit Tokens a whole number. Before each model call its worst case is reserved: one token for
	// each byte of the request, at least 8,000 for each image, 1,000 for additions of the provider, and maxOutputTokens
	// of the Model, at its highest price. A call that does not fit is not made.
	// +required
	Limit BudgetLimit `json:"limit"`
	// softLimit pauses Turns before their next model call once more than this was spent in the window. Raise or remove
	// it to let them continue. Default: none.
	// +optional
	SoftLimit BudgetLimit `json:"softLimit,omitempty"`
	// window is the period that the limits are for: Total (default), or a calendar Day, Week (from Monday on) or Month.
	// A model call counts for the window in which it was reserved.
	// +optional
	// +kubebuilder:default=Total
	Window BudgetWindow `json:"window,omitempty"`
	// timeZone in which days, weeks and months begin, a name of the IANA database such as "Europe/Berlin", of which the
	// longest has 32 characters. Default: UTC.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self != 'Local' && !self.contains(':') && timestamp('2026-01-01T00:00:00Z').getFullYear(self) > 2000",message="timeZone must be the name of a time zone in the IANA database."
	TimeZone string `json:"timeZone,omitempty"`
	// onExhausted is Pause (default) or End. With Pause, a Turn whose next model call does not fit into the rest of the
	// limit waits until the limit is raised or the next window begins. With End the Turn ends, with reason
	// BudgetExhausted.
	// +optional
	// +kubebuilder:default=Pause
	OnExhausted BudgetOnExhausted `json:"onExhausted,omitempty"`
}

// BudgetReservation is the worst case of one attempt to call a model that has not ended.
type BudgetReservation struct {
	// turnUID is the UID of the Turn that makes the call.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Type=string
	TurnUID types.UID `json:"turnUID"`
	// step of the Turn, from 1.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	Step int32 `json:"step"`
	// try numbers the attempts of the holder, from 1.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	Try int32 `json:"try"`
	// holder identifies the process that makes the call.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16
	Holder string `json:"holder"`
	// amount that is reserved.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	Amount string `json:"amount"`
	// windowStart is the beginning of the window that the call counts for. It is absent with the window Total.
	// +optional
	WindowStart *metav1.Time `json:"windowStart,omitempty"`
}

// BudgetStatus is the balance of a Budget.
type BudgetStatus struct {
	// conditions are Ready, Exhausted (a model call did not fit into the rest of the limit, in this window), Paused
	// (more than softLimit was spent), and LowBalance (a fifth of the limit or less is left).
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// observedGeneration is the generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// windowStart is the beginning of the window that spent is about. It is absent with the window Total.
	// +optional
	WindowStart *metav1.Time `json:"windowStart,omitempty"`
	// windowEnd is its end.
	// +optional
	WindowEnd *metav1.Time `json:"windowEnd,omitempty"`
	// spent is the amount of the calls that have ended, a decimal with up to twelve places. A call whose outcome is
	// unknown counts with all that was reserved for it.
	// +optional
	// +kubebuilder:validation:MaxLength=40
	Spent string `json:"spent,omitempty"`
	// reserved is the amount of all open reservations.
	// +optional
	// +kubebuilder:validation:MaxLength=40
	Reserved string `json:"reserved,omitempty"`
	// balance is limit without spent. It is negative after the limit was lowered below that.
	// +optional
	// +kubebuilder:validation:MaxLength=41
	Balance string `json:"balance,omitempty"`
	// reservations are the model calls that have not ended.
	// +optional
	// +listType=map
	// +listMapKey=turnUID
	// +listMapKey=step
	// +listMapKey=try
	// +kubebuilder:validation:MaxItems=256
	Reservations []BudgetReservation `json:"reservations,omitempty"`
}

// Budget limits what the model calls of Sessions cost.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=budgets,categories=capstan
// +kubebuilder:printcolumn:name="Limit",type=string,JSONPath=`.spec.limit`
// +kubebuilder:printcolumn:name="Unit",type=string,JSONPath=`.spec.unit`
// +kubebuilder:printcolumn:name="Currency",type=string,JSONPath=`.spec.currency`
// +kubebuilder:printcolumn:name="Window",type=string,JSONPath=`.spec.window`
// +kubebuilder:printcolumn:name="Spent",type=string,JSONPath=`.status.spent`
// +kubebuilder:printcolumn:name="Reserved",type=string,JSONPath=`.status.reserved`
// +kubebuilder:printcolumn:name="Balance",type=string,JSONPath=`.status.balance`
// +kubebuilder:printcolumn:name="Exhausted",type=string,JSONPath=`.status.conditions[?(@.type=="Exhausted")].status`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="the name of a Budget has at most 63 characters."
type Budget struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the limit, and the Sessions that it is for.
	// +required
	Spec BudgetSpec `json:"spec"`
	// status is the balance. Only the manager writes it.
	// +optional
	// +kubebuilder:default={observedGeneration:-1}
	Status BudgetStatus `json:"status,omitempty"`
}

// BudgetList is a list of Budgets.
//
// +kubebuilder:object:root=true
type BudgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Budget `json:"items"`
}
