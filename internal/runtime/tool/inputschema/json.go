package inputschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// maxDepth is how deep schemas and arguments may be nested.
	maxDepth = 64
	// maxNumberBytes is how long a number in schemas and arguments may be, and maxExponent how large its exponent.
	maxNumberBytes = 64
	maxExponent    = 400
)

// decodeJSON reads one JSON value, with numbers as they are written. It rejects values that are too expensive to check,
// and objects with a duplicate key: the schema would be checked against one of its values, and the tool may read the
// other.
func decodeJSON(text string) (any, error) {
	if !utf8.ValidString(text) {
		return nil, errors.New("it is not UTF-8")
	}
	if err := checkTokens(text); err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	return value, nil
}

// checkTokens reads one JSON value token by token, before anything is built from it.
func checkTokens(text string) error {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var open nesting
	for ended := false; !ended; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return errors.New("unexpected end of input")
		}
		if err != nil {
			return err
		}
		if err := open.checkToken(token); err != nil {
			return err
		}
		ended = len(open) == 0
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("unexpected data after the value")
	}
	return nil
}

// nesting are the objects and arrays that a decoder is in, the innermost last.
type nesting []level

// level is an object with the keys that it has so far, or an array, which has none.
type level struct {
	keys map[string]bool
	// value reports whether a value follows: the key before it has been read.
	value bool
}

// checkToken checks the next token.
func (n *nesting) checkToken(token json.Token) error {
	switch token := token.(type) {
	case json.Delim:
		return n.delimiter(token)
	case json.Number:
		if err := checkNumber(token.String()); err != nil {
			return err
		}
	case string:
		if inner := n.inner(); inner != nil && inner.keys != nil && !inner.value {
			if inner.keys[token] {
				return fmt.Errorf("duplicate key %.64q in an object", token)
			}
			inner.keys[token], inner.value = true, true
			return nil
		}
	}
	n.valueRead()
	return nil
}

// delimiter opens or closes an object or an array.
func (n *nesting) delimiter(d json.Delim) error {
	switch d {
	case '{':
		*n = append(*n, level{keys: map[string]bool{}})
	case '[':
		*n = append(*n, level{})
	default:
		*n = (*n)[:len(*n)-1]
		n.valueRead()
	}
	if len(*n) > maxDepth {
		return fmt.Errorf("it is nested more than %d levels deep", maxDepth)
	}
	return nil
}

func (n *nesting) inner() *level {
	if len(*n) == 0 {
		return nil
	}
	return &(*n)[len(*n)-1]
}

func (n *nesting) valueRead() {
	if inner := n.inner(); inner != nil {
		inner.value = false
	}
}

// checkNumber refuses numbers that take long to compare.
func checkNumber(number string) error {
	if len(number) > maxNumberBytes {
		return fmt.Errorf("a number has more than %d digits", maxNumberBytes)
	}
	at := strings.IndexAny(number, "eE")
	if at < 0 {
		return nil
	}
	exponent := json.Number(strings.TrimPrefix(number[at+1:], "+"))
	if value, err := exponent.Int64(); err != nil || value > maxExponent || value < -maxExponent {
		return fmt.Errorf("the exponent of the number %s is out of range", number)
	}
	return nil
}

// lookup follows a JSON pointer (RFC 6901) as it is written in the fragment of a reference.
func lookup(value any, pointer string) (any, bool) {
	pointer, err := url.PathUnescape(pointer)
	if err != nil || pointer != "" && pointer[0] != '/' {
		return nil, false
	}
	for pointer != "" {
		var token string
		token, pointer, _ = strings.Cut(pointer[1:], "/")
		if pointer != "" {
			pointer = "/" + pointer
		}
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		var found bool
		switch holder := value.(type) {
		case map[string]any:
			value, found = holder[token]
		case []any:
			if at, err := strconv.Atoi(token); err == nil && at >= 0 && at < len(holder) {
				value, found = holder[at], true
			}
		}
		if !found {
			return nil, false
		}
	}
	return value, true
}
