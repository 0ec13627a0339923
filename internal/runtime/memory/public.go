package memory

import (
	"cmp"
	"context"
	"slices"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/record"
)

// pageSize is the number of memories in one list for a person.
const pageSize = 200

// Public returns the memory as people are shown it.
func (m *Memory) Public() stream.Memory {
	return stream.Memory{
		ID: m.ID, Kind: string(m.Kind), Content: m.Content, Tags: m.Tags, CreatedAt: m.Created, ForgottenAt: m.Forgotten,
	}
}

// Page lists the active memories, or all with those that are forgotten, newest first: those behind the one of the given
// id, or the first ones if it is empty. It has two pages and a part of the store in memory at a time.
func (m *Memories) Page(ctx context.Context, withForgotten bool, after string) (*stream.MemoryList, error) {
	last, err := m.before(ctx, after)
	if err != nil {
		return nil, err
	}
	var page []stored
	err = m.each(ctx, func() { page = nil }, func(known *stored) {
		if known.Forgotten != nil && !withForgotten || last != nil && newestFirst(*known, *last) <= 0 {
			return
		}
		if page = append(page, *known); len(page) >= 2*pageSize {
			page = newest(page)
		}
	})
	if err != nil {
		return nil, err
	}
	page = newest(page)
	list := &stream.MemoryList{Items: []stream.Memory{}, More: len(page) > pageSize}
	for i := range page[:min(len(page), pageSize)] {
		list.Items = append(list.Items, page[i].Public())
	}
	return list, nil
}

// before returns the memory of an id, behind which a page begins; nil for no id. It may be forgotten.
func (m *Memories) before(ctx context.Context, id string) (*stored, error) {
	if id == "" {
		return nil, nil
	}
	known, err := m.stored(ctx, id)
	if err == nil && known == nil {
		err = record.Explainf("The memory %.32q, behind which the list goes on, does not exist any more. Begin again.", id)
	}
	return known, err
}

// newest returns the memories of a page, and one more if there are more.
func newest(all []stored) []stored {
	slices.SortFunc(all, newestFirst)
	return all[:min(len(all), pageSize+1)]
}

func newestFirst(a, b stored) int {
	return cmp.Or(cmp.Compare(b.Sequence, a.Sequence), cmp.Compare(a.ID, b.ID))
}
