package memory

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/capstan-dev/capstan/internal/runtime/record"
)

const (
	// MaxContentCharacters is the maximum length of the text of a memory.
	MaxContentCharacters = 2000
	// MaxTags is the maximum number of tags of a memory.
	MaxTags = 10
	// MaxTagCharacters is the maximum length of a tag.
	MaxTagCharacters = 50
	// MaxActive is the maximum number of active memories of a store. What is reached first counts, it or MaxBytes.
	MaxActive = 10_000
	// MaxBytes is the maximum size of the active memories of a store, as they are stored.
	MaxBytes = 4 << 20
)

// Kind is what a memory is about.
type Kind string

// The kinds of memories.
const (
	KindFact       Kind = "fact"
	KindPreference Kind = "preference"
	KindCorrection Kind = "correction"
	KindProcedure  Kind = "procedure"
	KindContext    Kind = "context"
)

// Kinds are all kinds.
func Kinds() []Kind {
	return []Kind{KindFact, KindPreference, KindCorrection, KindProcedure, KindContext}
}

// Memory is a text that is remembered.
type Memory struct {
	// ID of the memory, unique in its store.
	ID string `json:"id"`
	// Kind is what it is about.
	Kind Kind `json:"kind"`
	// Content is the text.
	Content string `json:"content"`
	// Tags are lower case, each once.
	Tags []string `json:"tags,omitempty"`
	// Created is when it was created.
	Created time.Time `json:"created_at"`
	// Forgotten is when it was forgotten; nil for one that is active.
	Forgotten *time.Time `json:"forgotten_at,omitempty"`
}

// Draft is a memory that is to be created.
type Draft struct {
	// Kind of the memory; empty for KindFact.
	Kind Kind
	// Content is the text.
	Content string
	// Tags of any case.
	Tags []string
}

// ids are the texts that can be an id.
var ids = regexp.MustCompile(`^mem-[0-9a-f]{16}$`)

// idOf is the id of the memory that is created by a cause.
func idOf(cause record.Cause) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s", cause.Step, cause.Key))
	return "mem-" + hex.EncodeToString(sum[:8])
}

// partOf is the key of the part of an id.
func partOf(id string) string {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(id))
	return fmt.Sprintf("%s%02d", prefix, hash.Sum32()%parts)
}

// check returns the draft as it is stored, or why it cannot be.
func (d Draft) check() (Draft, error) {
	if d.Kind == "" {
		d.Kind = KindFact
	}
	if !slices.Contains(Kinds(), d.Kind) {
		return d, record.Explainf("%.32q is no kind of memory. The kinds are %s.", string(d.Kind), kindNames())
	}
	if len(d.Content) > MaxContentCharacters*utf8.UTFMax || !utf8.ValidString(d.Content) ||
		strings.TrimSpace(d.Content) == "" || utf8.RuneCountInString(d.Content) > MaxContentCharacters {
		return d, record.Explainf("The content has %d bytes, is blank, or is not valid UTF-8. A memory is a text of 1 to %d "+
			"characters.", len(d.Content), MaxContentCharacters)
	}
	var err error
	d.Tags, err = cleanTags(d.Tags)
	return d, err
}

// cleanTags returns tags in lower case, each once, or why they cannot be tags.
func cleanTags(tags []string) ([]string, error) {
	if len(tags) > MaxTags {
		return nil, record.Explainf("There are %d tags. A memory has at most %d.", len(tags), MaxTags)
	}
	var clean []string
	for _, tag := range tags {
		if len(tag) > MaxTagCharacters*utf8.UTFMax || !utf8.ValidString(tag) {
			return nil, badTag(tag)
		}
		lower := strings.ToLower(strings.TrimSpace(tag))
		if lower == "" || utf8.RuneCountInString(lower) > MaxTagCharacters ||
			strings.ContainsFunc(lower, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return nil, badTag(tag)
		}
		if !slices.Contains(clean, lower) {
			clean = append(clean, lower)
		}
	}
	return clean, nil
}

func badTag(tag string) error {
	return record.Explainf("%.64q cannot be a tag: it must have 1 to %d printable characters.", tag, MaxTagCharacters)
}

func kindNames() string {
	var names []string
	for _, kind := range Kinds() {
		names = append(names, string(kind))
	}
	return strings.Join(names, ", ")
}
