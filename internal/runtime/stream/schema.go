package stream

import (
	"encoding/json"
	"fmt"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
)

// durable are the types of the journal, with what makes the public data of theirs.
var durable = map[string]func([]byte) ([]byte, error){
	event.TypeInputMessage:           as[stream.InputMessage],
	event.TypeSessionActivated:       as[stream.SessionActivated],
	event.TypeSessionIdled:           as[stream.SessionIdled],
	event.TypeTurnStarted:            as[stream.TurnStarted],
	event.TypeTurnCompleted:          as[stream.TurnCompleted],
	event.TypeTurnFailed:             as[stream.TurnFailed],
	event.TypeReasonStarted:          as[stream.ReasonStarted],
	event.TypeReasonCompleted:        as[stream.ReasonCompleted],
	event.TypeReasonRecovered:        as[stream.ReasonRecovered],
	event.TypeOutputMessageStarted:   as[stream.OutputMessageStarted],
	event.TypeOutputMessageCompleted: as[stream.OutputMessageCompleted],
	event.TypeLLMGeneration:          as[stream.LLMGeneration],
	event.TypeTranscriptRepaired:     as[stream.TranscriptRepaired],
	event.TypeContextCompacting:      as[stream.ContextCompacting],
	event.TypeContextCompacted:       as[stream.ContextCompacted],
	event.TypeActStarted:             as[stream.ActStarted],
	event.TypeActCompleted:           as[stream.ActCompleted],
	event.TypeToolStarted:            as[stream.ToolStarted],
	event.TypeToolCompleted:          as[stream.ToolCompleted],
	event.TypeToolRateLimited:        as[stream.ToolRateLimited],
	event.TypeToolCallRequested:      as[stream.ToolCallRequested],
	event.TypeSubAgentSpawned:        as[stream.SubAgent],
	event.TypeSubAgentCompleted:      as[stream.SubAgent],
	event.TypeSubAgentFailed:         as[stream.SubAgent],
	event.TypeSubAgentCancelled:      as[stream.SubAgent],
	event.TypeBudgetWarning:          as[stream.Budget],
	event.TypeBudgetPaused:           as[stream.Budget],
	event.TypeBudgetExhausted:        as[stream.Budget],
	event.TypeBudgetResumed:          as[stream.Budget],
}

// as decodes the data of the journal into the public type, which leaves out what is not public, and encodes it again.
func as[T any](raw []byte) ([]byte, error) {
	var data T
	if err := json.Unmarshal(raw, &data); err != nil {
		return nil, err
	}
	return json.Marshal(data)
}

// dataOf returns the public data of an event of the journal. A type that this build does not know has none.
func dataOf(e event.Event) (json.RawMessage, error) {
	convert := durable[e.Type]
	if convert == nil || e.Data == nil {
		return nil, nil
	}
	data, err := convert(e.Data.Raw)
	if err != nil {
		return nil, fmt.Errorf("reading the data of event %s of type %s: %w", e.ID, e.Type, err)
	}
	return data, nil
}
