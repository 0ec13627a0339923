package tool

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// IntentKey is an argument that models add for people to read. It changes nothing about a call.
const IntentKey = "human_intent"

// emptyArguments replaces blank arguments.
const emptyArguments = "{}"

// Fingerprint is the SHA-256, in hexadecimal, over a tool's name and the model's arguments (DUR-06). JSON arguments are
// compared by meaning: white space, the order of keys and the key human_intent do not matter. Others are compared byte
// for byte, and so are those that are larger than a tool can receive: they are not decoded.
func Fingerprint(name, arguments string) string {
	if len(arguments) <= MaxArgumentsBytes {
		if normal, ok := normalize(arguments); ok {
			return Hash(name, "json", normal)
		}
	}
	return Hash(name, "text", arguments)
}

// normalize writes JSON with sorted keys and without white space. Numbers stay as they were written.
func normalize(arguments string) (string, bool) {
	decoder := json.NewDecoder(strings.NewReader(ArgumentsOrEmpty(arguments)))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return "", false
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return "", false
	}
	if object, ok := value.(map[string]any); ok {
		delete(object, IntentKey)
	}
	var normal bytes.Buffer
	if json.NewEncoder(&normal).Encode(value) != nil {
		return "", false
	}
	return strings.TrimSuffix(normal.String(), "\n"), true
}

// ArgumentsOrEmpty returns the arguments for the tool: byte for byte, except for blank ones, which stand for an empty
// object.
func ArgumentsOrEmpty(arguments string) string {
	if strings.TrimSpace(arguments) == "" {
		return emptyArguments
	}
	return arguments
}

// Hash is the SHA-256 of parts, in hexadecimal. Each part follows its length, so that nothing can be moved from one to
// the next.
func Hash(parts ...string) string {
	sum := sha256.New()
	for _, part := range parts {
		_, _ = fmt.Fprintf(sum, "%d:%s", len(part), part) // a hash accepts everything
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// IdempotencyKey is a key for services that must not perform an operation twice. It is the same for every attempt of a
// call and different for every other call. It has 64 hexadecimal digits.
func IdempotencyKey(turn types.UID, callID string) string {
	return Hash("idempotency-key", string(turn), callID)
}

// CallDigest is the SHA-256, in hexadecimal, over everything that an approval of a call covers: the Turn, the step that
// runs the call, the call, the Tool as it is pinned in the call, and the arguments for the tool.
func CallDigest(turn types.UID, step int32, call v1alpha1.ToolCall, arguments string) string {
	return Hash(
		"call",
		string(turn),
		strconv.FormatInt(int64(step), 10),
		call.ID,
		string(call.ToolUID),
		call.ToolDigest,
		ArgumentsOrEmpty(arguments),
	)
}
