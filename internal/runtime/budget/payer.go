package budget

import (
	"k8s.io/apimachinery/pkg/types"
)

// Payer is what a model call is charged to.
type Payer struct {
	// Namespace is that of the Session, whose Budgets count.
	Namespace string
	// Root is the Session whose labels decide which Budgets count: that of the Turn, or, for a sub-agent, the one at
	// the top of its tree.
	Root    string
	RootUID types.UID
	// Turn and Step identify the reservations of the call.
	Turn types.UID
	Step int32
}

// Notice is a change of a Budget that concerns a Turn.
type Notice struct {
	// Kind is the change.
	Kind NoticeKind
	// Budget is its name, Message what users read about it; empty for NoticeResumed.
	Budget, Message string
}

// NoticeKind is the kind of a Notice.
type NoticeKind string

const (
	// NoticeWarning: a fifth of the limit or less is left.
	NoticeWarning NoticeKind = "warning"
	// NoticePaused: the Turn waits for a Budget that is not exhausted.
	NoticePaused NoticeKind = "paused"
	// NoticeExhausted: the next call of the Turn does not fit into the rest of the limit.
	NoticeExhausted NoticeKind = "exhausted"
	// NoticeResumed: the Turn continues.
	NoticeResumed NoticeKind = "resumed"
)
