package memory

import (
	"context"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
)

// pageSize is the number of memories in one list for a person.
const pageSize = 200

// Public returns the memory as people are shown it.
func (m *Memory) Public() stream.Memory {
	return stream.Memory{
		ID: m.ID, Kind: string(m.Kind), Content: m.Content, Tags: m.Tags, CreatedAt: m.Created, ForgottenAt: m.Forgotten,
	}
}

// Page lists memories as List does, a part at a time: those behind the given id, or the first ones if it is empty.
func (m *Memories) Page(ctx context.Context, withForgotten bool, after string) (*stream.MemoryList, error) {
	all, err := m.List(ctx, true) // One that is forgotten between two pages still has its place.
	if err != nil {
		return nil, err
	}
	list := &stream.MemoryList{Items: []stream.Memory{}}
	behind := after == ""
	for i := range all {
		switch {
		case !behind:
			behind = all[i].ID == after
		case all[i].Forgotten != nil && !withForgotten:
		case len(list.Items) == pageSize:
			list.More = true
			return list, nil
		default:
			list.Items = append(list.Items, all[i].Public())
		}
	}
	return list, nil
}
