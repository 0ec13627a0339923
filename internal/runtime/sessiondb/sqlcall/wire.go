package sqlcall

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/capstan-dev/capstan/internal/runtime/runner"
)

const (
	// ProgramName is the name of the program that runs SQL.
	ProgramName = "sql"
	// maxRequestBytes bounds a Request, in which JSON may escape each byte by six, and maxReplyBytes a message from the
	// process.
	maxRequestBytes = 6*(MaxSQLBytes+MaxParamBytes) + 64<<10
	maxReplyBytes   = 512 << 10
)

// message is what the process sends.
type message struct {
	// Read is the part of the file that it needs.
	Read *int `json:"read,omitempty"`
	// Done is the result. The content of the parts that have changed follows it.
	Done *Result `json:"done,omitempty"`
	// Problem is why there is no result.
	Problem *Problem `json:"problem,omitempty"`
	// Defect is an error that is not about the SQL.
	Defect string `json:"defect,omitempty"`
}

// ErrProtocol reports a process that has sent something that no process of ours sends.
var ErrProtocol = errors.New("the process has sent an invalid message")

// Talk sends a request to its process and serves it until it ends. It believes the process nothing: SQL of a tenant has
// run in it. The error is a *Problem, an error of the source, or has runner.ErrEnded or ErrProtocol.
func Talk(ctx context.Context, c runner.Conn, r Request, file Source) (*Result, []Chunk, error) {
	if err := c.Send(maxRequestBytes, r); err != nil {
		return nil, nil, err
	}
	// A process reads each part once.
	for range MaxChunks + 1 {
		var m message
		if err := c.Receive(maxReplyBytes, &m); err != nil {
			return nil, nil, err
		}
		switch {
		case m.Problem != nil:
			return nil, nil, m.Problem
		case m.Defect != "":
			return nil, nil, fmt.Errorf("running SQL: %.1000q", m.Defect)
		case m.Done != nil:
			return receive(c, r, m.Done)
		case m.Read == nil || *m.Read < 0 || *m.Read >= Chunks(r.Size):
			return nil, nil, ErrProtocol
		}
		content, err := file.Read(ctx, *m.Read)
		if err != nil {
			return nil, nil, err
		}
		if err := c.SendBytes(ChunkBytes, content); err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, ErrProtocol
}

// receive checks a result and reads the parts that follow it.
func receive(c runner.Conn, r Request, result *Result) (*Result, []Chunk, error) {
	writes := r.Mode == Execute
	if result.Size < 0 || result.Size > MaxFileBytes || len(result.Rows) > MaxRows || len(result.Changed) > MaxChunks ||
		!slices.IsSorted(result.Changed) || !writes && len(result.Changed) > 0 {
		return nil, nil, ErrProtocol
	}
	chunks := make([]Chunk, 0, len(result.Changed))
	for i, number := range result.Changed {
		if number < 0 || number >= Chunks(result.Size) || i > 0 && number == result.Changed[i-1] {
			return nil, nil, ErrProtocol
		}
		content, err := c.ReceiveBytes(ChunkBytes)
		switch {
		case err != nil:
			return nil, nil, err
		case len(content) != ChunkSize(result.Size, number):
			return nil, nil, ErrProtocol
		}
		chunks = append(chunks, Chunk{Number: number, Content: content})
	}
	return result, chunks, nil
}

// Serve is the side of the process: it reads a request, runs it and sends the result. The error of run is a *Problem,
// or one that the other side is not told.
func Serve(
	in io.Reader, out io.Writer, run func(r Request, file Source) (*Result, []Chunk, error),
) error {
	var r Request
	if err := runner.Receive(in, maxRequestBytes, &r); err != nil {
		return err
	}
	result, chunks, err := run(r, pipe{in: in, out: out})
	var problem *Problem
	switch {
	case errors.As(err, &problem):
		return runner.Send(out, maxReplyBytes, message{Problem: problem})
	case err != nil:
		return errors.Join(err, runner.Send(out, maxReplyBytes, message{Defect: err.Error()}))
	}
	if err := runner.Send(out, maxReplyBytes, message{Done: result}); err != nil {
		return err
	}
	for _, chunk := range chunks {
		if err := runner.SendBytes(out, ChunkBytes, chunk.Content); err != nil {
			return err
		}
	}
	return nil
}

// pipe asks the other side for the parts of the file.
type pipe struct {
	in  io.Reader
	out io.Writer
}

// Read implements Source.
func (p pipe) Read(_ context.Context, chunk int) ([]byte, error) {
	if err := runner.Send(p.out, maxReplyBytes, message{Read: &chunk}); err != nil {
		return nil, fmt.Errorf("asking for part %d: %w", chunk, err)
	}
	return runner.ReceiveBytes(p.in, ChunkBytes)
}
