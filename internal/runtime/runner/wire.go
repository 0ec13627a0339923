package runner

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
)

// maxHelloBytes bounds the messages before those of a program.
const maxHelloBytes = 64 << 10

// hello is the first message of a process.
type hello struct {
	// Ready reports that the process is confined and waits for its program.
	Ready bool `json:"ready,omitempty"`
	// Error is why it cannot run a program.
	Error string `json:"error,omitempty"`
}

// start is the first message to a process.
type start struct {
	// Program is the name of the one that it is to run.
	Program string `json:"program"`
}

// Send writes a message of at most a number of bytes, with its length.
func Send(w io.Writer, limit uint32, message any) error {
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(message); err != nil {
		return fmt.Errorf("encoding a message: %w", err)
	}
	return SendBytes(w, limit, encoded.Bytes())
}

// Receive reads a message of at most a number of bytes. The error is io.EOF if the other side has closed the pipe.
func Receive(r io.Reader, limit uint32, message any) error {
	encoded, err := ReceiveBytes(r, limit)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(encoded, message); err != nil {
		return fmt.Errorf("decoding a message: %w", err)
	}
	return nil
}

// SendBytes writes at most a number of bytes, with their length.
func SendBytes(w io.Writer, limit uint32, content []byte) error {
	if uint64(len(content)) > uint64(limit) {
		return fmt.Errorf("a message has %d bytes; the maximum is %d", len(content), limit)
	}
	framed := binary.BigEndian.AppendUint32(make([]byte, 0, len(content)+4), uint32(len(content)))
	_, err := w.Write(append(framed, content...))
	return err
}

// ReceiveBytes reads at most a number of bytes. The error is io.EOF if the other side has closed the pipe.
func ReceiveBytes(r io.Reader, limit uint32) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > limit {
		return nil, fmt.Errorf("a message has %d bytes; the maximum is %d", n, limit)
	}
	content := make([]byte, n)
	if _, err := io.ReadFull(r, content); err != nil {
		return nil, err
	}
	return content, nil
}
