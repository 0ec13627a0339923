package result

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
)

const (
	// Version of the wire format.
	Version = 1
	// MaxMessageBytes is the maximum size of a termination message that a kubelet reads.
	MaxMessageBytes = 4096
	// MaxResultBytes is the most that a result may take (TOOL-19).
	MaxResultBytes = 64 * 1024
	// MaxStderrBytes is the most of the end of stderr that the launcher keeps.
	MaxStderrBytes = 4096
	// sureMessageBytes is the size of a message that no kubelet shortens. A kubelet gives all containers of a pod 12
	// KiB together, in equal shares; this leaves room for a dozen injected containers.
	sureMessageBytes = 1024
	// nonceBytes is the length of a nonce before it is written in hexadecimal.
	nonceBytes = 16
)

// messageMark opens every message. A container runtime may prefix its own text.
const messageMark = "capstan-report "

// frameMark opens the line before the bytes of a result in the log, and filesMark that before the files of the tool.
const (
	frameMark = "capstan-result "
	filesMark = "capstan-files "
)

// Outcome is how a run of the launcher ended.
type Outcome string

const (
	// Exited: the tool ended normally; the header has its exit code.
	Exited Outcome = "exited"
	// Signalled: the tool was ended by a signal that the launcher did not send.
	Signalled Outcome = "signalled"
	// TimedOut: the launcher ended the tool because its timeout had passed.
	TimedOut Outcome = "timeout"
	// Terminated: the launcher was stopped, and ended the tool if it had started.
	Terminated Outcome = "terminated"
	// Refused: the launcher found that the tool had been started before, and did not start it again.
	Refused Outcome = "refused-second-start"
	// StartError: the tool's command could not be started.
	StartError Outcome = "start-error"
)

// Exit codes of the launcher where the tool has none of its own.
const (
	// ExitTimeout goes with TimedOut.
	ExitTimeout = 124
	// ExitLauncher goes with Refused and with a StartError that is the launcher's own.
	ExitLauncher = 125
	// ExitNotExecutable goes with a StartError: the command exists and cannot be run.
	ExitNotExecutable = 126
	// ExitNotFound goes with a StartError: the command does not exist.
	ExitNotFound = 127
	// ExitTerminated goes with Terminated.
	ExitTerminated = 143
)

// Report is the launcher's report at its end.
type Report struct {
	// Outcome of the run.
	Outcome Outcome
	// Exit is the launcher's own exit code, 0 to 255: that of the tool with Exited, 128 + the signal with Signalled.
	Exit int
	// Started reports whether the tool's command was started.
	Started bool
	// Result is the text for the model, with Exited and Exit 0: the output of Cut.
	Result string
	// Cut reports whether Result is a part of the tool's output.
	Cut bool
	// StdoutBytes is the number of bytes that the tool wrote to stdout.
	StdoutBytes int64
	// Stderr is the end of the tool's stderr or, with StartError, the error.
	Stderr string
	// Files that the tool returns, and an output that is longer than Result; nil for none. They count without an error
	// only.
	Files *Files
}

// header is the first line of a message.
type header struct {
	Version int     `json:"v"`
	Exit    int     `json:"exit"`
	Outcome Outcome `json:"outcome"`
	Started bool    `json:"started"`
	// Stdout is the number of bytes of the tool's stdout; Cut reports whether the result does not show them all.
	Stdout int64 `json:"stdout"`
	Cut    bool  `json:"cut,omitempty"`
	// Body is the length of the message after the header.
	Body int `json:"body"`
	// Log is the length of the result in the log; nil if it is not there.
	Log *int `json:"log,omitempty"`
	// Files is the length of the files in the log, and FilesSHA256 their digest; nil if there are none.
	Files       *int   `json:"files,omitempty"`
	FilesSHA256 string `json:"filesSha256,omitempty"`
	// SHA256 is the digest of the result or, without one, of the body.
	SHA256 string `json:"sha256"`
	// Nonce marks the frame in the log.
	Nonce string `json:"nonce"`
}

// NewNonce draws the nonce of a report. Draw it when no process of the tool is left.
func NewNonce() string {
	nonce := make([]byte, nonceBytes)
	_, _ = rand.Read(nonce) // never fails: the program ends when there is no randomness
	return hex.EncodeToString(nonce)
}

// ReportOf returns the report about a tool that has ended normally, from its whole output and its exit code.
func ReportOf(stdout, stderr string, exit int) Report {
	text, cut := Cut([]byte(stdout), int64(len(stdout)))
	return Report{
		Outcome:     Exited,
		Exit:        exit,
		Started:     true,
		Result:      text,
		Cut:         cut,
		StdoutBytes: int64(len(stdout)),
		Stderr:      Tail(stderr, MaxStderrBytes),
	}
}

// Succeeded reports whether the tool returned a result.
func (r Report) Succeeded() bool {
	return r.Outcome == Exited && r.Exit == 0
}

// Encode writes the termination message, and the frame for the log, which is empty if the message is complete. Write
// the frame first: only the message makes it count.
func (r Report) Encode(nonce string) (message, frame []byte) {
	if !r.Succeeded() {
		return r.encodeFailure(nonce), nil
	}
	head := header{
		Version: Version, Exit: r.Exit, Outcome: r.Outcome, Started: r.Started,
		Stdout: r.StdoutBytes, Cut: r.Cut,
		Body: len(r.Result), SHA256: digest(r.Result), Nonce: nonce,
	}
	var files []byte
	if r.Files != nil {
		bundle := r.Files.bundle()
		size := len(bundle)
		head.Files, head.FilesSHA256 = &size, digest(string(bundle))
		files = encodeFrame(filesMark, nonce, string(bundle))
	}
	if message = head.encode(r.Result); len(message) <= sureMessageBytes {
		return message, files
	}
	size := len(r.Result)
	head.Log = &size
	frame = append(encodeFrame(frameMark, nonce, r.Result), files...)
	if message = head.encode(r.Result); len(message) <= MaxMessageBytes {
		return message, frame
	}
	head.Body = 0
	return head.encode(""), frame
}

// encodeFailure writes a message without a result. It keeps as much of the end of stderr as fits.
func (r Report) encodeFailure(nonce string) []byte {
	head := header{
		Version: Version, Exit: r.Exit, Outcome: r.Outcome, Started: r.Started, Stdout: r.StdoutBytes, Nonce: nonce,
		Body: MaxMessageBytes, SHA256: digest(""),
	}
	room := MaxMessageBytes - len(head.encode(""))
	body := Tail(r.Stderr, room)
	head.Body, head.SHA256 = len(body), digest(body)
	return head.encode(body)
}

func (h header) encode(body string) []byte {
	line, err := json.Marshal(h)
	if err != nil {
		panic(fmt.Sprintf("encoding the header of a report: %v", err)) // numbers, booleans and strings always encode
	}
	message := make([]byte, 0, len(messageMark)+len(line)+1+len(body))
	message = append(message, messageMark...)
	message = append(message, line...)
	message = append(message, '\n')
	return append(message, body...)
}

// encodeFrame begins with a line break, because the tool's stderr, which the log may show before it, need not end with
// one.
func encodeFrame(mark, nonce, payload string) []byte {
	frame := make([]byte, 0, len(payload)+96)
	frame = append(frame, '\n')
	frame = append(frame, frameLine(mark, nonce, len(payload))...)
	frame = append(frame, payload...)
	return append(frame, '\n')
}

func frameLine(mark, nonce string, length int) string {
	return mark + nonce + " " + strconv.Itoa(length) + "\n"
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
