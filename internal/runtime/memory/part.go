package memory

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/record"
)

const (
	// parts is the number of parts of a store, and prefix that of their keys.
	parts  = 64
	prefix = "part/"
	// keepForgotten is how long each forgotten memory stays. Of those that are older, a part keeps the newest, up to
	// maxForgotten of them with maxForgottenBytes together.
	keepForgotten     = time.Hour
	maxForgotten      = 64
	maxForgottenBytes = 32 << 10
)

// stored is a memory as it is stored.
type stored struct {
	Memory
	// Sequence is the revision of the store that has created it: it orders memories of the same time.
	Sequence int64 `json:"sequence"`
	// ForgottenBy is the id that a memory of the call that has forgotten this one would have.
	ForgottenBy string `json:"forgotten_by,omitempty"`
}

// part is the value of one key of a store.
type part struct {
	Memories []stored `json:"memories"`
}

// tally counts the active memories of a part, in the index.
type tally struct{ active, bytes int64 }

// String is the form in which a tally is kept: as the kind of the item.
func (t tally) String() string { return fmt.Sprintf("%d/%d", t.active, t.bytes) }

// tallyOf returns the tally of all parts of a store.
func tallyOf(x *record.Index) (tally, error) {
	var sum tally
	for _, item := range x.Items {
		if !strings.HasPrefix(item.Key, prefix) {
			continue
		}
		var t tally
		if _, err := fmt.Sscanf(item.Kind, "%d/%d", &t.active, &t.bytes); err != nil || t.active < 0 || t.bytes < 0 {
			return tally{}, fmt.Errorf("%w (a part of a memory has the tally %.32q)", record.ErrFormat, item.Kind)
		}
		sum.active, sum.bytes = sum.active+t.active, sum.bytes+t.bytes
	}
	return sum, nil
}

// decodePart reads a part.
func decodePart(value []byte) (*part, error) {
	p := &part{}
	if err := json.Unmarshal(value, p); err != nil {
		return nil, fmt.Errorf("%w (decoding a part of a memory: %w)", record.ErrFormat, err)
	}
	return p, nil
}

// find returns the memory of an id; nil if the part has none.
func (p *part) find(id string) *stored {
	for i := range p.Memories {
		if p.Memories[i].ID == id {
			return &p.Memories[i]
		}
	}
	return nil
}

// put returns the operation that writes the part under a key, with the tally of its memories.
func (p *part) put(key string) (*record.Operation, error) {
	var t tally
	for i := range p.Memories {
		if m := &p.Memories[i]; m.Forgotten == nil {
			t.active++
			t.bytes += m.size()
		}
	}
	value, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encoding a part of a memory: %w", err)
	}
	if len(value) > record.MaxValueBytes {
		return nil, fmt.Errorf("%w: a part of a memory would have %d bytes", record.ErrFull, len(value))
	}
	return &record.Operation{Put: []record.Put{{Key: key, Value: value, Kind: t.String()}}}, nil
}

// size is about the size of a memory as it is stored.
func (s *stored) size() int64 {
	const rest = 160 // id, kind and times, with their names
	size := rest + len(s.Content)
	for _, tag := range s.Tags {
		size += len(tag) + 3
	}
	return int64(size)
}

// drop drops the forgotten memories for which a part has no room.
func (p *part) drop(now time.Time) {
	var old []*stored
	for i := range p.Memories {
		if m := &p.Memories[i]; m.Forgotten != nil && now.Sub(*m.Forgotten) > keepForgotten {
			old = append(old, m)
		}
	}
	slices.SortFunc(old, func(a, b *stored) int {
		return cmp.Or(b.Forgotten.Compare(*a.Forgotten), cmp.Compare(b.Sequence, a.Sequence))
	})
	dropped, bytes := map[string]bool{}, int64(0)
	for n, m := range old {
		bytes += m.size()
		dropped[m.ID] = n >= maxForgotten || bytes > maxForgottenBytes
	}
	p.Memories = slices.DeleteFunc(p.Memories, func(m stored) bool { return dropped[m.ID] })
}
