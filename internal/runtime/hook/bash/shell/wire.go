package shell

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
)

// Request is what a process is to run. It is sent to it once.
type Request struct {
	// Command is the script.
	Command string `json:"command"`
	// Env are the environment variables, as NAME=value. Of two with the same name the last counts.
	Env []string `json:"env"`
	// Files are those of the Session, without content, and what else the script finds, with content.
	Files []File `json:"files"`
	// TimeoutMillis is how long the script may run.
	TimeoutMillis int64 `json:"timeoutMillis"`
}

// File is a file or a directory, by its absolute path as the script sees it.
type File struct {
	Path     string `json:"path"`
	Dir      bool   `json:"dir,omitempty"`
	ReadOnly bool   `json:"readOnly,omitempty"`
	// Size of a file whose content is read when it is needed.
	Size int64 `json:"size,omitempty"`
	// Content of a file that has it here; nil for one that is read when it is needed.
	Content []byte `json:"content,omitempty"`
	// Here reports whether Content is the content.
	Here bool `json:"here,omitempty"`
}

// Change is what a script has done to a file: it has written or deleted it.
type Change struct {
	Path    string `json:"path"`
	Deleted bool   `json:"deleted,omitempty"`
	Dir     bool   `json:"dir,omitempty"`
	Content []byte `json:"content,omitempty"`
}

// Message is what a process sends: that it is ready, that it needs a file, or the end of its script.
type Message struct {
	// Ready reports that the process is confined and waits for its request.
	Ready bool `json:"ready,omitempty"`
	// Read is the path of a file that it needs. It is sent as Content or an error.
	Read string `json:"read,omitempty"`
	// Done is the end of the script.
	Done *Result `json:"done,omitempty"`
	// Error is why it cannot run the script.
	Error string `json:"error,omitempty"`
}

// Content is the content of a file that a process has asked for.
type Content struct {
	Content []byte `json:"content,omitempty"`
	Error   string `json:"error,omitempty"`
}

// Result is what has become of a script.
type Result struct {
	Stdout  string   `json:"stdout,omitempty"`
	Stderr  string   `json:"stderr,omitempty"`
	Exit    int      `json:"exit,omitempty"`
	Changes []Change `json:"changes,omitempty"`
}

// The bounds of files and messages.
const (
	// MaxFileBytes is the largest file that a script can read.
	MaxFileBytes = 1 << 20
	// MaxWrittenBytes is the most that a script may have written when it ends, in all files together.
	MaxWrittenBytes = 1 << 20
	// MaxRequestBytes bounds a message to a process, and MaxReplyBytes one from it.
	MaxRequestBytes = 8 << 20
	MaxReplyBytes   = 3 << 20
)

// Send writes a message of at most a number of bytes, with its length.
func Send(w io.Writer, limit uint32, message any) error {
	encoded, err := json.Marshal(message)
	if err != nil {
		return fmt.Errorf("encoding a message: %w", err)
	}
	if uint64(len(encoded)) > uint64(limit) {
		return fmt.Errorf("a message has %d bytes; the maximum is %d", len(encoded), limit)
	}
	framed := binary.BigEndian.AppendUint32(make([]byte, 0, len(encoded)+4), uint32(len(encoded)))
	_, err = w.Write(append(framed, encoded...))
	return err
}

// Receive reads a message of at most a number of bytes.
func Receive(r io.Reader, limit uint32, message any) error {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > limit {
		return fmt.Errorf("a message has %d bytes; the maximum is %d", n, limit)
	}
	encoded := make([]byte, n)
	if _, err := io.ReadFull(r, encoded); err != nil {
		return err
	}
	if err := json.Unmarshal(encoded, message); err != nil {
		return fmt.Errorf("decoding a message: %w", err)
	}
	return nil
}
