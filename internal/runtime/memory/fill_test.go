package memory_test

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"

	"github.com/capstan-dev/capstan/internal/runtime/memory"
	"github.com/capstan-dev/capstan/internal/runtime/record"
)

// fill writes so many small memories at once, as a store has them after as many calls, and returns their ids. It also
// holds the form in which memories are stored: later builds must read it.
func (d *desk) fill(count int) []string {
	d.t.Helper()
	type kept struct {
		memory.Memory
		Sequence int64 `json:"sequence"`
	}
	parts, ids, bytes := map[string][]kept{}, make([]string, count), map[string]int{}
	for n := range count {
		m := kept{Sequence: int64(n), Memory: memory.Memory{
			ID: fmt.Sprintf("mem-%016x", n), Kind: memory.KindFact, Content: fmt.Sprintf("number %d", n), Created: start,
		}}
		key := partOf(m.ID)
		parts[key] = append(parts[key], m)
		bytes[key] += 160 + len(m.Content)
		ids[n] = m.ID
	}
	_, err := d.store.Update(d.t.Context(), memory.ScopeOf(demo), d.next(),
		func(context.Context, *record.Index) (*record.Operation, error) {
			o := &record.Operation{}
			for key, memories := range parts {
				value, err := json.Marshal(map[string]any{"memories": memories})
				if err != nil {
					return nil, err
				}
				o.Put = append(o.Put, record.Put{
					Key: key, Value: value, Kind: fmt.Sprintf("%d/%d", len(memories), bytes[key]),
				})
			}
			return o, nil
		})
	if err != nil {
		d.t.Fatal(err)
	}
	return ids
}

func partOf(id string) string {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(id))
	return fmt.Sprintf("part/%02d", hash.Sum32()%64)
}
