package format

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Version is the newest format of entries. It grows with every change that an earlier build would misread.
const Version = packed

// The formats that this build reads: see docs/design/journal.md. An entry without a number has the format beside.
const (
	beside = iota + 1
	plain
	packed
)

// ErrUnknown reports an entry that a later build has written, in a form that this one does not know. Nothing is
// concluded from it.
var ErrUnknown = errors.New("the journal has an entry of an unknown format")

// Encode returns an entry as it is stored.
func Encode(e *Entry) (*v1alpha1.JournalEntrySpec, error) {
	spec, err := Plain(e)
	if err != nil {
		return nil, err
	}
	return Pack(spec)
}

// Plain returns an entry without compression. Its size as JSON counts for the bounds of entries and journals.
func Plain(e *Entry) (*v1alpha1.JournalEntrySpec, error) {
	payload, err := encodeV2(e)
	if err != nil {
		return nil, fmt.Errorf("encoding the entry at ordinal %d: %w", e.Ordinal, err)
	}
	return &v1alpha1.JournalEntrySpec{
		Session: e.Session, Ordinal: e.Ordinal, Format: plain, Time: e.Time, Turn: e.Turn, Step: e.Step, Part: e.Part,
		Final: e.Final, Payload: &v1alpha1.JSON{Raw: payload},
	}, nil
}

// Pack returns a plain entry with its payload compressed, or the entry itself where that is not shorter.
func Pack(spec *v1alpha1.JournalEntrySpec) (*v1alpha1.JournalEntrySpec, error) {
	payload, err := pack(spec.Payload.Raw)
	if err != nil {
		return nil, fmt.Errorf("encoding the entry at ordinal %d: %w", spec.Ordinal, err)
	}
	if len(payload) >= len(spec.Payload.Raw) {
		return spec, nil
	}
	short := *spec
	short.Format, short.Payload = packed, &v1alpha1.JSON{Raw: payload}
	return &short, nil
}

// Unpack reverses Pack. An entry without compression is returned as it is. The error is ErrUnknown.
func Unpack(spec *v1alpha1.JournalEntrySpec) (*v1alpha1.JournalEntrySpec, error) {
	if spec.Format != packed || spec.Payload == nil {
		return spec, nil
	}
	payload, err := unpack(spec.Payload.Raw)
	if err != nil {
		return nil, fmt.Errorf("%w %d (%w)", ErrUnknown, spec.Format, err)
	}
	full := *spec
	full.Format, full.Payload = plain, &v1alpha1.JSON{Raw: payload}
	return &full, nil
}

// Decode reads an entry of any known format. The error is ErrUnknown.
func Decode(spec *v1alpha1.JournalEntrySpec) (*Entry, error) {
	spec, err := Unpack(spec)
	if err != nil {
		return nil, err
	}
	e := &Entry{
		Session: spec.Session, Ordinal: spec.Ordinal, Time: spec.Time, Turn: spec.Turn, Step: spec.Step, Part: spec.Part,
		Final: spec.Final,
	}
	switch {
	case spec.Payload == nil:
	case spec.Format <= beside:
		err = decodeV1(spec.Payload.Raw, e)
	case spec.Format == plain:
		err = decodeV2(spec.Payload.Raw, e)
	default:
		return nil, fmt.Errorf("%w %d", ErrUnknown, spec.Format)
	}
	if err != nil {
		return nil, fmt.Errorf("%w %d (%w)", ErrUnknown, spec.Format, err)
	}
	if !e.hasContent() {
		return nil, fmt.Errorf("%w %d (no content that this version of the manager knows)", ErrUnknown, spec.Format)
	}
	return e, nil
}

// hasContent reports whether an entry has content: an empty part is of a kind that this build does not know, and a
// final entry without its transition does not determine what follows.
func (e *Entry) hasContent() bool {
	if e.Final {
		return e.Transition != nil
	}
	return e.Checkpoint != nil || e.Claimed != nil || e.Settled != nil || e.Partial != nil ||
		e.Prompt != nil || e.Response != nil || e.Ended != nil ||
		len(e.Outcomes) > 0 || len(e.Events) > 0 || len(e.Calls) > 0
}

// FromJSON reads the spec of a JournalEntry. An entry of format 1, whose content is beside the envelope, gets the whole
// spec as its payload.
func FromJSON(raw []byte) (*v1alpha1.JournalEntrySpec, error) {
	spec := &v1alpha1.JournalEntrySpec{}
	if err := json.Unmarshal(raw, spec); err != nil {
		return nil, fmt.Errorf("reading the spec of a JournalEntry: %w", err)
	}
	if spec.Format <= beside {
		spec.Payload = &v1alpha1.JSON{Raw: raw}
	}
	return spec, nil
}
