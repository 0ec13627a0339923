package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

// head keeps the start of the written bytes, and counts the rest. It is safe for concurrent use.
type head struct {
	mu    sync.Mutex
	limit int
	kept  []byte
	total int64
}

func (h *head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.total += int64(len(p))
	room := h.limit - len(h.kept)
	h.kept = append(h.kept, p[:min(room, len(p))]...)
	return len(p), nil
}

// content returns a copy of the kept bytes, and the length of all written bytes.
func (h *head) content() ([]byte, int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]byte(nil), h.kept...), h.total
}

// tail keeps the end of the written bytes. It is safe for concurrent use.
type tail struct {
	mu    sync.Mutex
	limit int
	kept  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p[max(0, len(p)-t.limit):]...)
	if extra := len(t.kept) - t.limit; extra > 0 {
		t.kept = append(t.kept[:0], t.kept[extra:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.kept)
}

// echo writes the start of a stream to the log, so that a person can follow a running tool. It never fails: a log that
// cannot be written must not stop the tool.
type echo struct {
	log  io.Writer
	room int
}

func (e *echo) Write(p []byte) (int, error) {
	if e.room == 0 {
		return len(p), nil
	}
	shown := p[:min(e.room, len(p))]
	e.room -= len(shown)
	_, _ = e.log.Write(shown)
	if e.room == 0 {
		_, _ = fmt.Fprintf(e.log, "\nlauncher: further output on stderr is not shown\n")
	}
	return len(p), nil
}

// stream is a pipe from the tool that is read until its end, so that the tool never has to wait.
type stream struct {
	reader *os.File
	// writer is the tool's end, closed here once the tool has it.
	writer int
	ended  chan struct{}
}

// newStream returns a pipe. The tool's end stays a blocking one, as every program expects; only the end that is read
// here can be abandoned.
func newStream() (*stream, error) {
	var ends [2]int
	if err := syscall.Pipe2(ends[:], syscall.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("creating a pipe: %w", err)
	}
	if err := syscall.SetNonblock(ends[0], true); err != nil {
		return nil, fmt.Errorf("creating a pipe: %w", err)
	}
	return &stream{reader: os.NewFile(uintptr(ends[0]), "pipe"), writer: ends[1], ended: make(chan struct{})}, nil
}

// collect closes the tool's end here and reads until no process has it open any more.
func (s *stream) collect(into io.Writer) {
	_ = syscall.Close(s.writer)
	go func() {
		defer close(s.ended)
		_, _ = io.Copy(into, s.reader)
	}()
}

// finish waits for the end of the stream, at most until the deadline.
func (s *stream) finish(deadline time.Time) {
	_ = s.reader.SetReadDeadline(deadline)
	<-s.ended
	_ = s.reader.Close()
}

// output is the two streams of a tool and their kept parts.
type output struct {
	stdout, stderr *stream
	out            *head
	err            *tail
	// whole reports whether stdout is returned whole.
	whole bool
}

// shortOutput is how much of stdout is kept for a result: a few bytes more than it may have, so that a rune on the
// border is whole.
const shortOutput = result.MaxResultBytes + utf8.UTFMax

// newOutput returns streams of which the start is kept: of stdout as much as a result has, or as is returned whole.
func newOutput(whole bool) (*output, error) {
	stdout, err := newStream()
	if err != nil {
		return nil, err
	}
	stderr, err := newStream()
	if err != nil {
		return nil, err
	}
	limit := shortOutput
	if whole {
		limit = result.MaxOutputBytes
	}
	return &output{
		whole:  whole,
		stdout: stdout,
		stderr: stderr,
		out:    &head{limit: limit},
		err:    &tail{limit: result.MaxStderrBytes},
	}, nil
}

func (o *output) collect(log io.Writer) {
	o.stdout.collect(o.out)
	o.stderr.collect(io.MultiWriter(o.err, &echo{log: log, room: result.MaxLogStderrBytes}))
}

func (o *output) finish(deadline time.Time) {
	o.stdout.finish(deadline)
	o.stderr.finish(deadline)
}

// ended is closed when both streams have ended.
func (o *output) ended() <-chan struct{} {
	both := make(chan struct{})
	go func() {
		<-o.stdout.ended
		<-o.stderr.ended
		close(both)
	}()
	return both
}
