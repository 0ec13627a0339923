package hook

import (
	"bytes"
	"encoding/json"
	"strings"
)

// maxKnownPaths is how many paths into the arguments of a call are looked up once for all hooks.
const maxKnownPaths = 16

// arguments are those of one call. They are read once for all hooks that look at the same path.
type arguments struct {
	raw json.RawMessage
	// valid reports whether they are JSON, once checked.
	valid, checked bool
	known          map[string]string
}

func newArguments(raw json.RawMessage) *arguments {
	return &arguments{raw: raw, known: map[string]string{}}
}

// at returns the value at a path of keys: strings as they are, others as JSON, and the empty string for nothing.
// Elements of arrays have no path.
func (a *arguments) at(path string) string {
	if value, ok := a.known[path]; ok {
		return value
	}
	if !a.checked {
		a.valid, a.checked = json.Valid(a.raw), true
	}
	if !a.valid {
		return ""
	}
	value := textOf(lookUp(json.NewDecoder(bytes.NewReader(a.raw)), keysOf(path)))
	if len(a.known) < maxKnownPaths {
		a.known[path] = value
	}
	return value
}

// keysOf are the keys of a path.
func keysOf(path string) []string {
	var keys []string
	for key := range strings.SplitSeq(strings.TrimPrefix(path, "$."), ".") {
		if key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// lookUp reads the next value, and returns the one at the end of the keys within it; nil for none. It reads each byte
// once, however deep the path is. Of members with the same name the last counts, as it does for who decodes them all.
func lookUp(values *json.Decoder, keys []string) json.RawMessage {
	var value json.RawMessage
	if len(keys) == 0 {
		if values.Decode(&value) != nil {
			return nil
		}
		return value
	}
	opening, err := values.Token()
	if err != nil || opening != json.Delim('{') {
		if opening == json.Delim('[') {
			skip(values)
		}
		return nil
	}
	for values.More() {
		key, err := values.Token()
		if err != nil {
			return nil
		}
		if key == keys[0] {
			value = lookUp(values, keys[1:])
			continue
		}
		var other json.RawMessage
		if values.Decode(&other) != nil {
			return nil
		}
	}
	if _, err := values.Token(); err != nil {
		return nil
	}
	return value
}

// skip reads the rest of an array.
func skip(values *json.Decoder) {
	var element json.RawMessage
	for values.More() {
		if values.Decode(&element) != nil {
			return
		}
	}
	_, _ = values.Token()
}

// textOf is a value as a matcher sees it.
func textOf(value json.RawMessage) string {
	var text string
	switch {
	case len(value) == 0 || string(value) == "null":
		return ""
	case json.Unmarshal(value, &text) == nil:
		return text
	default:
		return string(value)
	}
}
