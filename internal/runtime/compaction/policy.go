package compaction

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Capability is the name of the built-in capability.
const Capability = "compaction"

// Mode is a way to shorten a conversation.
type Mode string

const (
	// Mask replaces the content of older tool results by notes.
	Mask Mode = "Mask"
	// Summarize has a model write a summary that replaces older messages.
	Summarize Mode = "Summarize"
	// Trim leaves older messages out.
	Trim Mode = "Trim"
)

// modes are all modes, in the order in which they are tried.
var modes = []Mode{Mask, Summarize, Trim}

const (
	defaultKeep    = 10
	defaultPercent = 80
)

// Schema is the JSON Schema of the configuration of the capability.
const Schema = `{
  "type": "object",
  "properties": {
    "threshold": {
      "anyOf": [
        {"type": "integer", "minimum": 256, "maximum": 100000000},
        {"type": "string", "pattern": "^([1-9]|[1-9][0-9])%$"}
      ]
    },
    "modelRef": {
      "type": "object",
      "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 253}},
      "required": ["name"],
      "additionalProperties": false
    },
    "keepMessages": {"type": "integer", "minimum": 1, "maximum": 1000},
    "modes": {
      "type": "array",
      "items": {"enum": ["Mask", "Summarize", "Trim"]},
      "minItems": 1,
      "maxItems": 3,
      "uniqueItems": true
    }
  },
  "additionalProperties": false
}`

// Policy is the configuration of the capability.
type Policy struct {
	// tokens is the size of a prompt from which the conversation is compacted, percent the share of the context window of
	// the Model. One of them is 0.
	tokens, percent int64
	// Model is the name of the Model that writes summaries; empty for that of the Turn.
	Model string
	// keep is the number of messages that stay as they are, if they are not too large themselves.
	keep  int
	modes []Mode
}

// Parse reads a configuration that satisfies the Schema; empty for the defaults.
func Parse(config string) (*Policy, error) {
	read := struct {
		Threshold json.RawMessage `json:"threshold"`
		ModelRef  *struct {
			Name string `json:"name"`
		} `json:"modelRef"`
		KeepMessages int    `json:"keepMessages"`
		Modes        []Mode `json:"modes"`
	}{KeepMessages: defaultKeep, Modes: slices.Clone(modes)} // Decoding reuses the array.
	if config != "" {
		if err := json.Unmarshal([]byte(config), &read); err != nil {
			return nil, fmt.Errorf("reading the configuration of compaction: %w", err)
		}
	}
	p := &Policy{keep: read.KeepMessages, modes: read.Modes}
	if read.ModelRef != nil {
		p.Model = read.ModelRef.Name
	}
	if len(read.Threshold) == 0 {
		p.percent = defaultPercent
		return p, nil
	}
	text, share := strings.CutSuffix(strings.Trim(string(read.Threshold), `"`), "%")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("reading the threshold of compaction: %w", err)
	}
	if share {
		p.percent = n
	} else {
		p.tokens = n
	}
	return p, nil
}

// Threshold is the size of a prompt, in tokens, from which the conversation is compacted before a Model is called with
// it; 0 if the Model has no context window for a threshold in percent: then only a refused prompt leads to compaction.
func (p *Policy) Threshold(m *v1alpha1.Model) int64 {
	switch {
	case p.tokens > 0:
		return p.tokens
	case m == nil || m.Spec.ContextWindow == nil:
		return 0
	default:
		return int64(*m.Spec.ContextWindow) * p.percent / 100
	}
}

// allows reports whether a mode is used.
func (p *Policy) allows(m Mode) bool { return slices.Contains(p.modes, m) }
