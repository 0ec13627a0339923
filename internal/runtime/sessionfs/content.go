package sessionfs

import (
	"bytes"
	"encoding/base64"
	"unicode/utf8"

	"github.com/capstan-dev/capstan/internal/runtime/record"
)

// Encoding is how the content of a file is written as a text.
type Encoding string

const (
	// Text is the content itself.
	Text Encoding = "text"
	// Base64 is the content in base64, with padding.
	Base64 Encoding = "base64"
)

// sniffed is how much of a file decides whether it is text.
const sniffed = 8 << 10

// Error is an error that the caller can correct, or has to know: a path, a read-only file, a limit. Its text may be
// shown to the model.
type Error = record.ExplainedError

// Errorf returns an Error.
func Errorf(format string, args ...any) error {
	return record.Explainf(format, args...)
}

// IsText reports whether bytes are a text: valid UTF-8 without NUL in the first 8 KiB (FS-07).
func IsText(content []byte) bool {
	return bytes.IndexByte(content[:min(len(content), sniffed)], 0) < 0 && utf8.Valid(content)
}

// decode returns the bytes of a content. Without an encoding it is text.
func decode(path, content string, encoding Encoding) ([]byte, Encoding, error) {
	var decoded []byte
	switch encoding {
	case Text, "":
		if !utf8.ValidString(content) {
			return nil, "", Errorf("The content of %s is not valid UTF-8. Write it in base64.", path)
		}
		decoded, encoding = []byte(content), Text
	case Base64:
		if most := base64.StdEncoding.EncodedLen(record.MaxValueBytes); len(content) > most {
			return nil, "", tooLarge(path, int64(len(content))/4*3)
		}
		var err error
		if decoded, err = base64.StdEncoding.Strict().DecodeString(content); err != nil {
			return nil, "", Errorf("The content of %s is not valid base64: %s.", path, err)
		}
	default:
		return nil, "", Errorf("The encoding %.64q is not known. It is text or base64.", encoding)
	}
	if len(decoded) > record.MaxValueBytes {
		return nil, "", tooLarge(path, int64(len(decoded)))
	}
	return decoded, encoding, nil
}

func tooLarge(path string, bytes int64) error {
	return Errorf("%s would have %d bytes; the maximum of a file is %d.", path, bytes, record.MaxValueBytes)
}

// encode returns bytes as they are shown in an encoding.
func encode(content []byte, encoding Encoding) string {
	if encoding == Base64 {
		return base64.StdEncoding.EncodeToString(content)
	}
	return string(content)
}
