package tool

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// intentKey is an argument that models add for people to read. It changes nothing about a call.
const intentKey = "human_intent"

// nameHexDigits is how much of a hash is in the name of an object.
const nameHexDigits = 20

// emptyArguments replaces blank arguments.
const emptyArguments = "{}"

// Fingerprint is the SHA-256, in hexadecimal, over a tool's name and the model's arguments (DUR-06). JSON arguments are
// compared by meaning: white space, the order of keys and the key human_intent do not matter. Others are compared byte
// for byte, and so are those that are larger than a tool can receive: they are not decoded.
func Fingerprint(name, arguments string) string {
	if len(arguments) <= MaxArgumentsBytes {
		if normal, ok := normalize(arguments); ok {
			return hash(name, "json", normal)
		}
	}
	return hash(name, "text", arguments)
}

// normalize writes JSON with sorted keys and without white space. Numbers stay as they were written.
func normalize(arguments string) (string, bool) {
	decoder := json.NewDecoder(strings.NewReader(withDefault(arguments)))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return "", false
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return "", false
	}
	if object, ok := value.(map[string]any); ok {
		delete(object, intentKey)
	}
	var normal bytes.Buffer
	if json.NewEncoder(&normal).Encode(value) != nil {
		return "", false
	}
	return strings.TrimSuffix(normal.String(), "\n"), true
}

// Given returns the arguments for the tool: byte for byte, except for blank ones, which stand for an empty object.
func Given(arguments string) string {
	return withDefault(arguments)
}

// withDefault replaces blank arguments by an empty object.
func withDefault(arguments string) string {
	if strings.TrimSpace(arguments) == "" {
		return emptyArguments
	}
	return arguments
}

// hash is the SHA-256 of parts, in hexadecimal. Each part follows its length, so that nothing can be moved from one to
// the next.
func hash(parts ...string) string {
	sum := sha256.New()
	for _, part := range parts {
		_, _ = fmt.Fprintf(sum, "%d:%s", len(part), part) // a hash accepts everything
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// IdempotencyKey is a key for services that must not perform an operation twice. It is the same for every attempt of a
// call and different for every other call. It has 64 hexadecimal digits.
func IdempotencyKey(turn types.UID, callID string) string {
	return hash("idempotency-key", string(turn), callID)
}
