package result

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	// MaxLogStderrBytes is how much of stderr the launcher shows in the log while the tool runs.
	MaxLogStderrBytes = 64 * 1024
	// MaxLogBytes is the maximum size of the launcher's log without files, and bounds reading it.
	MaxLogBytes = MaxLogStderrBytes + MaxResultBytes + 4096
	// MaxFilesLogBytes is that of a log with files.
	MaxFilesLogBytes = MaxLogBytes + maxBundleBytes
)

// ErrMalformed means that a termination message is not a report. The tool's output is lost.
var ErrMalformed = errors.New("not a report of the launcher")

// ErrNoFrame means that a log does not contain the result that the report refers to. The tool's output is lost.
var ErrNoFrame = errors.New("the log does not contain the result")

// Message is a report as the manager reads it.
type Message struct {
	// Outcome, Exit, Started and StdoutBytes are those of the Report.
	Outcome     Outcome
	Exit        int
	Started     bool
	StdoutBytes int64
	// Cut reports whether the result is a part of the tool's output.
	Cut bool
	// Result is the tool's result; nil without success, and if it must be read from the log.
	Result *string
	// NeedsLog reports whether the result is in the log, HasFiles whether files are, which the tool returned.
	NeedsLog, HasFiles bool
	// Stderr is the end of stderr, without success. It is empty when the message was shortened on its way.
	Stderr string

	head header
}

// Decode reads a termination message. Every error is ErrMalformed.
func Decode(message string) (*Message, error) {
	head, body, err := split(message)
	if err != nil {
		return nil, err
	}
	m := &Message{
		Outcome: head.Outcome, Exit: head.Exit, Started: head.Started, StdoutBytes: head.Stdout, Cut: head.Cut, head: *head,
	}
	whole := len(body) == head.Body && digest(body) == head.SHA256
	if head.Outcome != Exited || head.Exit != 0 {
		if whole {
			m.Stderr = body
		}
		return m, nil
	}
	m.HasFiles = head.Files != nil
	switch {
	case whole:
		m.Result = &body
	case head.Log != nil:
		m.NeedsLog = true
	default:
		return nil, fmt.Errorf("%w: the result was damaged", ErrMalformed)
	}
	return m, nil
}

// split splits a message and checks the header.
func split(message string) (*header, string, error) {
	_, report, found := strings.Cut(message, messageMark)
	if !found {
		return nil, "", ErrMalformed
	}
	line, body, found := strings.Cut(report, "\n")
	if !found {
		return nil, "", fmt.Errorf("%w: unterminated header", ErrMalformed)
	}
	head := &header{}
	if err := json.Unmarshal([]byte(line), head); err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if err := head.check(); err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return head, body, nil
}

func (h *header) check() error {
	switch {
	case h.Version != Version:
		return fmt.Errorf("unknown version %d", h.Version)
	case h.Exit < 0 || h.Exit > 255:
		return fmt.Errorf("invalid exit code %d", h.Exit)
	case h.Body < 0 || h.Body > MaxMessageBytes || h.Stdout < 0:
		return errors.New("invalid length")
	case h.Log != nil && (*h.Log < 0 || *h.Log > MaxResultBytes):
		return errors.New("invalid length of the result")
	case h.Files != nil && (*h.Files < 0 || *h.Files > maxBundleBytes || !isHex(h.FilesSHA256, 32)):
		return errors.New("invalid length or digest of the files")
	case !isHex(h.SHA256, 32):
		return errors.New("invalid digest")
	case !isHex(h.Nonce, nonceBytes):
		return errors.New("invalid nonce")
	}
	return h.checkOutcome()
}

func (h *header) checkOutcome() error {
	switch h.Outcome {
	case Exited:
		if !h.Started {
			return errors.New("a tool that was not started cannot have exited")
		}
	case Signalled, TimedOut, Terminated, Refused, StartError:
		if h.Exit == 0 {
			return fmt.Errorf("the outcome %q cannot have the exit code 0", h.Outcome)
		}
	default:
		return fmt.Errorf("unknown outcome %q", h.Outcome)
	}
	return nil
}

func isHex(s string, size int) bool {
	decoded, err := hex.DecodeString(s)
	return err == nil && len(decoded) == size
}

// ReadLog finds the result in the log of the container that left the message, and the files of the tool, if there are
// any. It reads no more of the log than the launcher may have written. An error that is not ErrNoFrame comes from the
// log itself, and reading it again may help.
func (m *Message) ReadLog(log io.Reader) (string, *Files, error) {
	if m.head.Log == nil && !m.HasFiles {
		return "", nil, fmt.Errorf("%w: the report names none", ErrNoFrame)
	}
	most := int64(MaxLogBytes)
	if m.HasFiles {
		most = MaxFilesLogBytes
	}
	text, err := io.ReadAll(io.LimitReader(log, most))
	if err != nil {
		return "", nil, fmt.Errorf("reading the log of the tool's container: %w", err)
	}
	var payload string
	switch {
	case m.Result != nil:
		payload = *m.Result
	default:
		if payload, err = payloadOf(text, frameMark, m.head.Nonce, *m.head.Log, m.head.SHA256); err != nil {
			return "", nil, err
		}
	}
	if !m.HasFiles {
		return payload, nil, nil
	}
	bundle, err := payloadOf(text, filesMark, m.head.Nonce, *m.head.Files, m.head.FilesSHA256)
	if err != nil {
		return "", nil, err
	}
	files, err := readBundle(strings.NewReader(bundle))
	if err != nil {
		return "", nil, fmt.Errorf("%w: its files cannot be read: %w", ErrNoFrame, err)
	}
	return payload, files, nil
}

// payloadOf finds the bytes behind a mark in a log. The nonce distinguishes them from what the tool itself wrote.
func payloadOf(text []byte, mark, nonce string, length int, sum string) (string, error) {
	line := frameLine(mark, nonce, length)
	at := bytes.Index(text, []byte(line))
	if at < 0 {
		return "", ErrNoFrame
	}
	text = text[at+len(line):]
	if len(text) < length {
		return "", fmt.Errorf("%w: it is truncated", ErrNoFrame)
	}
	payload := string(text[:length])
	if digest(payload) != sum {
		return "", fmt.Errorf("%w: it was damaged", ErrNoFrame)
	}
	return payload, nil
}
