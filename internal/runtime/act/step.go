package act

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/content"
)

// Step is the knowledge of a process about an open act step. The zero value and nil are empty.
type Step struct {
	// Local reports whether the process carries out the calls of Job tools itself, as the in-process runtime does.
	Local bool
	// Read reports whether the results of clients and the decisions that the journal has were read.
	Read bool
	// Planned are the large fields of the calls, in their order, with those of calls that were too many for status. It
	// is nil while they are not needed.
	Planned []format.PlannedCall

	rows  []*Row
	brief bool
	// held is the number of outcomes that are only in memory, heldSince when it last changed.
	held      int
	heldSince time.Time
}

// Row is the knowledge of a process about one call.
type Row struct {
	// ID of the call.
	ID string
	// Outcome of the call; nil while it has none.
	Outcome *tool.Outcome
	// Cut reports whether the outcome has only the start of its texts. The journal has them.
	Cut bool
	// Source is the ToolResult with the client's result, or with the decision.
	Source types.UID
	// RecordedResult is the client's result or the decision in the journal. RecordedOutcome is the outcome in the
	// journal of a call that a process has carried out.
	RecordedResult, RecordedOutcome format.SettledRef
	// Input are the questions of the tool, and the answers, that the journal has, without their texts.
	Input []format.SettledRef
	// Unfenced reports whether this process has concluded that the call was not executed while no pod was recorded for
	// it. That is valid only until another leader records one.
	Unfenced bool
	// StartFailure is the outcome of an AtMostOnce call whose pod is being deleted, if it turns out that it did not
	// start. A new process without it ends the call the same way, with a less specific reason.
	StartFailure *tool.Outcome
	// UnstartedAttempts is the number of attempts of a Pure or Idempotent call that this process knows not to have
	// started. A new process starts at 0, and does not state that the call was not executed.
	UnstartedAttempts int32
	// IntendedAttempt is the attempt that this process has written to status: no earlier process has requested its Job.
	IntendedAttempt int32
	// Counted reports whether this process has counted the call for the rate limit of its tool.
	Counted bool
	// MissingSecret is the missing Secret that the call waits for.
	MissingSecret *MissingSecret
	// SubAgent is the knowledge about the sub-agent of the call.
	SubAgent SubAgent

	// secretCheckAt is when the Secret is checked again, secretCheckPause the pause before that.
	secretCheckAt    time.Time
	secretCheckPause time.Duration

	misread bool
	unread  int
}

// SubAgent is the knowledge of a process about the sub-agent that a call runs as.
type SubAgent struct {
	// Session is the UID of its Session, once that is known to be the one that the call needs.
	Session types.UID
	// CreatedAt is when this process created its Turn, or found that it exists. Seen reports whether the cache has had
	// it.
	CreatedAt time.Time
	Seen      bool
	// Cancelled reports whether this process has cancelled its Turn.
	Cancelled bool
}

// Row returns the row of a call, which is empty for a call that nothing is known of.
func (s *Step) Row(id string) *Row {
	if row := s.find(id); row != nil {
		return row
	}
	row := &Row{ID: id}
	s.rows = append(s.rows, row)
	return row
}

func (s *Step) find(id string) *Row {
	if s == nil {
		return nil
	}
	if i := slices.IndexFunc(s.rows, func(row *Row) bool { return row.ID == id }); i >= 0 {
		return s.rows[i]
	}
	return nil
}

// copyOf returns a copy of the row of a call.
func (s *Step) copyOf(id string) Row {
	if row := s.find(id); row != nil {
		return *row
	}
	return Row{ID: id}
}

// Outcome returns the outcome of a call, and whether it has one.
func (s *Step) Outcome(id string) (tool.Outcome, bool) {
	if row := s.find(id); row != nil && row.Outcome != nil {
		return *row.Outcome, true
	}
	return tool.Outcome{}, false
}

// Done reports whether a call has an outcome.
func (s *Step) Done(id string) bool {
	_, done := s.Outcome(id)
	return done
}

// Settled reports whether every call has an outcome.
func (s *Step) Settled(calls []v1alpha1.ToolCall) bool {
	return s.missing(calls) == 0
}

// missing counts the calls without an outcome.
func (s *Step) missing(calls []v1alpha1.ToolCall) int {
	n := 0
	for _, call := range calls {
		if !s.Done(call.ID) {
			n++
		}
	}
	return n
}

// Source returns the ToolResult with the result of a call or with the decision about it; empty for none.
func (s *Step) Source(id string) types.UID {
	return s.copyOf(id).Source
}

// RecordedSources returns the ToolResults whose results, decisions and answers the journal has, in the order of the
// calls.
func (s *Step) RecordedSources(calls []v1alpha1.ToolCall) []types.UID {
	var sources []types.UID
	for _, call := range calls {
		row := s.copyOf(call.ID)
		if row.RecordedResult.Ordinal != 0 {
			sources = append(sources, row.RecordedResult.Call.Source)
		}
		for _, ref := range row.Input {
			if ref.Call.Source != "" {
				sources = append(sources, ref.Call.Source)
			}
		}
	}
	return sources
}

// Plan returns the large fields of a call.
func (s *Step) Plan(id string) format.PlannedCall {
	if s == nil {
		return format.PlannedCall{}
	}
	for i := range s.Planned {
		if s.Planned[i].ID == id {
			return s.Planned[i]
		}
	}
	return format.PlannedCall{}
}

// Refused returns the calls that were too many for status.
func (s *Step) Refused(calls []v1alpha1.ToolCall) []format.PlannedCall {
	if s == nil {
		return nil
	}
	return s.Planned[min(len(calls), len(s.Planned)):]
}

// Parts returns the ordinals of the entries that the journal has of the given calls, in their order.
func (s *Step) Parts(calls []v1alpha1.ToolCall) []int64 {
	var parts []int64
	for _, call := range calls {
		row := s.copyOf(call.ID)
		for _, recorded := range append([]format.SettledRef{row.RecordedResult, row.RecordedOutcome}, row.Input...) {
			if recorded.Ordinal != 0 {
				parts = append(parts, recorded.Ordinal)
			}
		}
	}
	return parts
}

// Clone returns a copy that can be changed without effect on the original.
func (s *Step) Clone() *Step {
	clone := &Step{}
	if s == nil {
		return clone
	}
	*clone = *s
	clone.rows = make([]*Row, len(s.rows))
	for i, row := range s.rows {
		of := *row
		of.Input = slices.Clone(row.Input)
		clone.rows[i] = &of
	}
	return clone
}

// Brief returns a copy without results, for an entry that must fit where they did not. Results that it reads from the
// journal are left out as well.
func (s *Step) Brief() *Step {
	brief := s.Clone()
	brief.Planned, brief.brief = nil, true
	brief.shorten()
	return brief
}

func (s *Step) shorten() {
	for _, row := range s.rows {
		if row.Outcome != nil {
			outcome := shortened(*row.Outcome)
			row.Outcome = &outcome
		}
	}
}

// shortened returns an outcome with the start of its texts.
func shortened(outcome tool.Outcome) tool.Outcome {
	if outcome.Result != nil {
		text := tool.Preview(content.Preview(*outcome.Result))
		outcome.Result = &text
	}
	outcome.Error = tool.Preview(outcome.Error)
	return outcome
}
