package journal

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/internal/runtime/event"
)

// checkpoint returns the entry for a reserved ordinal. Its content is a function of the entries before it. It
// summarizes as much as its place in the tree allows, and less, by powers of two, if that would be too large.
func checkpoint(s Session, st *state, ordinal int64, time metav1.MicroTime) (*entry, error) {
	totals, sums := st.sums(starts(ordinal))
	for _, sum := range sums {
		c := totals
		c.From, c.Turns = sum.from, sum.turns
		c.Images = slices.ContainsFunc(sum.messages, event.Message.NamesImages)
		if c.Compacted = sum.whole; sum.whole {
			c.Conversation = st.conversationBytes()
		}
		spec := &Entry{Session: s.Name, Ordinal: ordinal, Time: time, Checkpoint: &c}
		frame, err := newEntry(spec)
		if err != nil {
			return nil, err
		}
		// base64 takes four bytes for three.
		room := (MaxEntryBytes-frame.size-64)/4*3 - 3
		if room <= 0 {
			continue
		}
		if c.Transcript, err = compress(sum.messages, room); errors.Is(err, errNoRoom) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("compressing the transcript from ordinal %d to %d: %w", sum.from, ordinal, err)
		}
		return newEntry(spec)
	}
	nothing := totals
	nothing.From = ordinal
	return newEntry(&Entry{
		Session: s.Name, Ordinal: ordinal, Time: time,
		Checkpoint: &nothing,
	})
}

// starts are the ordinals from which a checkpoint may summarize, the longest range first.
func starts(ordinal int64) []int64 {
	c := ordinal / CheckpointInterval
	var from []int64
	for span := c & -c; span > 0; span /= 2 {
		from = append(from, CheckpointInterval*(c-span)+1)
	}
	return from
}

// restore returns the content of a checkpoint. Messages before a later compaction are not read: superseded reports
// whether these are.
func restore(e *entry, superseded bool) (change, error) {
	c := e.spec.Checkpoint
	if superseded {
		return change{turns: c.Turns, context: c.Context}, nil
	}
	messages, err := decompress(c.Transcript)
	if err != nil {
		return change{}, fmt.Errorf("%w: the transcript of the checkpoint at ordinal %d: %w", ErrCorrupt, e.spec.Ordinal, err)
	}
	return change{messages: messages, turns: c.Turns, context: c.Context, whole: c.Compacted}, nil
}

var errNoRoom = errors.New("too large for its place")

func compress(messages []event.Message, room int64) ([]byte, error) {
	if len(messages) == 0 {
		return nil, nil
	}
	var buffer bytes.Buffer
	bounded := &boundedWriter{to: &buffer, room: room}
	compressor := gzip.NewWriter(bounded)
	if err := json.NewEncoder(compressor).Encode(messages); err != nil {
		return nil, err
	}
	if err := compressor.Close(); err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}

func decompress(transcript []byte) ([]event.Message, error) {
	if len(transcript) == 0 {
		return nil, nil
	}
	decompressor, err := gzip.NewReader(bytes.NewReader(transcript))
	if err != nil {
		return nil, err
	}
	var messages []event.Message
	if err := json.NewDecoder(decompressor).Decode(&messages); err != nil {
		return nil, err
	}
	// The checksum comes after the last message.
	if _, err := io.Copy(io.Discard, decompressor); err != nil {
		return nil, err
	}
	return messages, decompressor.Close()
}

// boundedWriter fails when there is no more room, so that no more is compressed than can be used.
type boundedWriter struct {
	to   io.Writer
	room int64
}

func (b *boundedWriter) Write(p []byte) (int, error) {
	if b.room -= int64(len(p)); b.room < 0 {
		return 0, errNoRoom
	}
	return b.to.Write(p)
}

// nextReserved is the first reserved ordinal at or behind an ordinal.
func nextReserved(ordinal int64) int64 {
	return (ordinal + CheckpointInterval - 1) / CheckpointInterval * CheckpointInterval
}
