package format

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
)

// v2 is the payload of an entry of format 2.
type v2 struct {
	Parts      []int64        `json:"parts,omitempty"`
	Digest     string         `json:"digest,omitempty"`
	Events     []eventV2      `json:"events,omitempty"`
	Calls      []plannedCall  `json:"calls,omitempty"`
	Steered    []recordedTurn `json:"steered,omitempty"`
	Claimed    *claimedCall   `json:"claimed,omitempty"`
	Settled    *settledCall   `json:"settled,omitempty"`
	Outcomes   []settledCall  `json:"outcomes,omitempty"`
	Partial    *partialAnswer `json:"partial,omitempty"`
	Prompt     *hookedPrompt  `json:"prompt,omitempty"`
	Response   *hookedPart    `json:"response,omitempty"`
	Ended      *hookedEnd     `json:"ended,omitempty"`
	Context    *pinnedContext `json:"context,omitempty"`
	Compaction *compaction    `json:"compaction,omitempty"`
	Transition *progress      `json:"transition,omitempty"`
	Checkpoint *checkpoint    `json:"checkpoint,omitempty"`
}

// eventV2 is an event without the data that follows from the envelope and the events before it.
type eventV2 struct {
	Type    string `json:"type"`
	Subject string `json:"subject,omitempty"`
	// ID is absent if it is the one of type and subject.
	ID string `json:"id,omitempty"`
	// After is the time in microseconds since the event before this one; of the first event since the time of the entry.
	After int64 `json:"after,omitempty"`
	// Exec is the run of the step that the event belongs to.
	Exec string `json:"exec,omitempty"`
	// Context has the further keys. An empty value removes one that follows from type, subject and exec.
	Context map[string]string `json:"context,omitempty"`
	Data    json.RawMessage   `json:"data,omitempty"`
	// Same has the keys of the data whose values are those of the events before.
	Same []string `json:"same,omitempty"`
	// Images marks data that names stored images. A build that does not know them does not know the field either, and so
	// does not take such an image for one without bytes.
	Images bool `json:"images,omitempty"`
	// Verbatim marks data that is not shortened.
	Verbatim bool `json:"verbatim,omitempty"`
}

// encodeV2 returns the payload of an entry.
func encodeV2(e *Entry) ([]byte, error) {
	p := v2{
		Parts: e.Parts, Digest: e.Digest, Calls: each(e.Calls, plannedFrom), Steered: each(e.Steered, turnFrom),
		Claimed: (*claimedCall)(e.Claimed), Outcomes: each(e.Outcomes, settledFrom), Partial: partialFrom(e.Partial),
		Prompt: promptFrom(e.Prompt), Response: (*hookedPart)(e.Response), Ended: endFrom(e.Ended),
		Context: (*pinnedContext)(e.Context), Compaction: (*compaction)(e.Compaction), Transition: progressFrom(e.Transition),
		Checkpoint: checkpointFrom(e.Checkpoint),
	}
	if e.Settled != nil {
		settled := settledFrom(*e.Settled)
		p.Settled = &settled
	}
	c := codecOf(e)
	for _, v := range e.Events {
		p.Events = append(p.Events, c.shorten(v))
	}
	raw, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encoding the payload: %w", err)
	}
	return raw, nil
}

// decodeV2 adds the content of a payload to an envelope. It does not accept a field that this build does not know.
func decodeV2(payload []byte, e *Entry) error {
	decoder := json.NewDecoder(bytes.NewReader(payload))
	decoder.DisallowUnknownFields()
	var p v2
	if err := decoder.Decode(&p); err != nil {
		return fmt.Errorf("reading the payload: %w", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return fmt.Errorf("reading the payload: more than one value")
	}
	e.Parts, e.Digest = p.Parts, p.Digest
	e.Calls, e.Steered = each(p.Calls, plannedCall.call), each(p.Steered, recordedTurn.turn)
	e.Claimed, e.Partial = (*ClaimedCall)(p.Claimed), p.Partial.partial()
	if p.Settled != nil {
		settled := p.Settled.call()
		e.Settled = &settled
	}
	e.Outcomes = each(p.Outcomes, settledCall.call)
	e.Prompt, e.Response = p.Prompt.prompt(), (*HookedResponse)(p.Response)
	e.Ended = p.Ended.end()
	e.Context = (*PinnedContext)(p.Context)
	e.Compaction = (*Compaction)(p.Compaction)
	e.Transition, e.Checkpoint = p.Transition.progress(), p.Checkpoint.checkpoint()
	c := codecOf(e)
	for _, v := range p.Events {
		read, err := c.restore(v)
		if err != nil {
			return err
		}
		e.Events = append(e.Events, read)
	}
	return nil
}

// codec shortens and restores the events of one entry, in order.
type codec struct {
	turn types.UID
	step int32
	time time.Time // of the event before the next one
	// values are those that events have had so far.
	values map[string]json.RawMessage
}

func codecOf(e *Entry) *codec {
	c := &codec{step: e.Step, time: e.Time.Time, values: map[string]json.RawMessage{}}
	if e.Turn != nil {
		c.turn = e.Turn.UID
	}
	return c
}

func (c *codec) shorten(e event.Event) eventV2 {
	short := eventV2{
		Type: e.Type, Subject: e.Subject, ID: e.ID, Exec: e.Context[event.ContextExec],
		After: microseconds(e.Time.Time) - microseconds(c.time),
	}
	c.time = e.Time.Time
	if e.ID == event.ID(c.turn, c.step, e.Type, e.Subject) {
		short.ID = ""
	}
	derived := event.Context(c.turn, short.Exec, e.Type, e.Subject)
	for key, value := range e.Context {
		if known, ok := derived[key]; !ok || known != value {
			short.setContext(key, value)
		}
	}
	for key := range derived {
		if e.Context[key] == "" {
			short.setContext(key, "")
		}
	}
	if e.Data != nil {
		short.Images = e.NamesImages()
		short.Data, short.Same, short.Verbatim = c.shortenData(e.Type, e.Data.Raw)
	}
	return short
}

func (v *eventV2) setContext(key, value string) {
	if v.Context == nil {
		v.Context = map[string]string{}
	}
	v.Context[key] = value
}

func (c *codec) restore(v eventV2) (event.Event, error) {
	e := event.Event{Type: v.Type, Subject: v.Subject, ID: v.ID}
	c.time = time.UnixMicro(microseconds(c.time) + v.After)
	e.Time = metav1.NewMicroTime(c.time)
	if e.ID == "" {
		e.ID = event.ID(c.turn, c.step, v.Type, v.Subject)
	}
	e.Context = event.Context(c.turn, v.Exec, v.Type, v.Subject)
	for key, value := range v.Context {
		if value == "" {
			delete(e.Context, key)
		} else {
			e.Context[key] = value
		}
	}
	if len(e.Context) == 0 {
		e.Context = nil
	}
	if v.Data == nil {
		return e, nil
	}
	data := []byte(v.Data)
	if !v.Verbatim {
		var err error
		if data, err = c.restoreData(v.Type, data, v.Same); err != nil {
			return e, fmt.Errorf("reading the data of an event of type %s: %w", v.Type, err)
		}
	}
	e.Data = &v1alpha1.JSON{Raw: data}
	return e, nil
}
