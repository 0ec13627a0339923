package memory

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/capstan-dev/capstan/internal/runtime/record"
)

const (
	// MaxQueryCharacters is the maximum length of the words of a query.
	MaxQueryCharacters = 500
	// MaxWords is how many different words of a query count, the first ones.
	MaxWords = 32
	// DefaultRecalled is how many memories a recall returns by default.
	DefaultRecalled = 10
	// MaxRecalled is how many memories a recall returns at most.
	MaxRecalled = 50
	// maxRecalledBytes is the maximum size of the memories that a recall returns, as JSON.
	maxRecalledBytes = 40 << 10
)

// Query selects memories. All that is set must be fulfilled.
type Query struct {
	// Words are searched in contents and tags. A memory must have one of them.
	Words string
	// Kind is that of the memories; empty for all.
	Kind Kind
	// Tags are those that a memory must have, all of them.
	Tags []string
	// Most is the number of memories to return; 0 for DefaultRecalled.
	Most int
}

// Recalled is the result of a recall.
type Recalled struct {
	// Memories are sorted by rank, and newest first where they have the same.
	Memories []Memory `json:"memories"`
	// Matches is the number of memories that the query selects, and Active that of the store.
	Matches int `json:"matches"`
	Active  int `json:"active"`
}

// ranked is a memory that a query selects.
type ranked struct {
	stored
	rank int
}

// Recall returns the active memories that a query selects (SVC-03).
func (m *Memories) Recall(ctx context.Context, q Query) (*Recalled, error) {
	s, err := q.compile()
	if err != nil {
		return nil, err
	}
	result := &Recalled{}
	var best []ranked
	begin := func() { *result, best = Recalled{Memories: []Memory{}}, nil }
	see := func(known *stored) {
		if known.Forgotten != nil {
			return
		}
		result.Active++
		rank, selected := s.rank(&known.Memory)
		if !selected {
			return
		}
		result.Matches++
		if best = append(best, ranked{*known, rank}); len(best) >= 2*s.most {
			best = first(best, s.most)
		}
	}
	if err := m.each(ctx, begin, see); err != nil {
		return nil, err
	}
	bytes := 0
	for _, r := range first(best, s.most) {
		text, err := json.Marshal(r.Memory)
		if err != nil {
			return nil, fmt.Errorf("encoding a memory: %w", err)
		}
		if bytes += len(text); bytes > maxRecalledBytes && len(result.Memories) > 0 {
			break
		}
		result.Memories = append(result.Memories, r.Memory)
	}
	return result, nil
}

// first returns the first of memories, by rank and then newest first.
func first(all []ranked, most int) []ranked {
	slices.SortFunc(all, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(b.rank, a.rank), cmp.Compare(b.Sequence, a.Sequence), cmp.Compare(a.ID, b.ID))
	})
	return all[:min(most, len(all))]
}

// selection is a Query that was checked.
type selection struct {
	// words are in lower case, each once, and places are their indexes.
	words  []string
	places map[string]int
	kind   Kind
	tags   []string
	most   int
}

// compile returns the selection of a query, or why it has none.
func (q Query) compile() (*selection, error) {
	if len(q.Words) > MaxQueryCharacters*utf8.UTFMax || !utf8.ValidString(q.Words) ||
		utf8.RuneCountInString(q.Words) > MaxQueryCharacters {
		return nil, record.Explainf("The query has %d bytes, or is not valid UTF-8. It has at most %d characters.",
			len(q.Words), MaxQueryCharacters)
	}
	if q.Kind != "" && !slices.Contains(Kinds(), q.Kind) {
		return nil, record.Explainf("%.32q is no kind of memory. The kinds are %s.", string(q.Kind), kindNames())
	}
	tags, err := cleanTags(q.Tags)
	if err != nil {
		return nil, err
	}
	if q.Most < 0 || q.Most > MaxRecalled {
		return nil, record.Explainf("The limit is %d. It must be 1 to %d.", q.Most, MaxRecalled)
	}
	compiled := &selection{places: map[string]int{}, kind: q.Kind, tags: tags, most: cmp.Or(q.Most, DefaultRecalled)}
	for word := range strings.FieldsFuncSeq(strings.ToLower(q.Words), between) {
		if _, known := compiled.places[word]; !known && len(compiled.words) < MaxWords {
			compiled.places[word] = len(compiled.words)
			compiled.words = append(compiled.words, word)
		}
	}
	if len(compiled.words) == 0 && strings.TrimSpace(q.Words) != "" {
		return nil, record.Explainf("The query %.64q has no words: letters or digits.", q.Words)
	}
	return compiled, nil
}

// rank returns the rank of a memory, and whether it is selected. A word of the query counts 2 where it is a word of the
// memory, and 1 where it is a part of one. Parts have at least 3 bytes: they also find words of languages that
// are written without spaces.
func (s *selection) rank(m *Memory) (int, bool) {
	if s.kind != "" && m.Kind != s.kind {
		return 0, false
	}
	for _, tag := range s.tags {
		if !slices.Contains(m.Tags, tag) {
			return 0, false
		}
	}
	if len(s.words) == 0 {
		return 0, true
	}
	text := strings.ToLower(m.Content + "\n" + strings.Join(m.Tags, "\n"))
	whole := make([]bool, len(s.words))
	for word := range strings.FieldsFuncSeq(text, between) {
		if n, asked := s.places[word]; asked {
			whole[n] = true
		}
	}
	rank := 0
	for n, word := range s.words {
		switch {
		case whole[n]:
			rank += 2
		case len(word) >= 3 && strings.Contains(text, word):
			rank++
		}
	}
	return rank, rank > 0
}

// between reports whether a character is between words: it is no letter, mark or digit.
func between(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsDigit(r)
}
