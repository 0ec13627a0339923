// Package job has the calls of tools that run as Jobs in a cluster, for the functions that replace their containers.
// The kit of capstantest and the runtime of capstantest/inprocess call the same functions.
package job

import (
	"context"
	"io"
)

// Call is a tool call that runs as a Job in a cluster.
type Call struct {
	// Namespace of the Turn.
	Namespace string
	// Turn, Session and Tool are names.
	Turn, Session, Tool string
	// ID of the call or of the background task, and which Attempt of it this is, from 1.
	ID      string
	Attempt int
	// Image and Command of the Tool, the command with its arguments.
	Image   string
	Command []string
	// Arguments as the tool gets them, byte for byte, at most 96 KiB.
	Arguments string
	// IdempotencyKey is the same for every attempt of a call, and differs between calls: CAPSTAN_IDEMPOTENCY_KEY of a
	// container.
	IdempotencyKey string
	// Locale of the response to the user: CAPSTAN_LOCALE of a container. Empty for none.
	Locale string
	// Files are those that the tool gets from its Session, by path (job.files.inputs of the Tool). The function adds and
	// changes those that it returns (job.files.outputs). Nil for a Tool that shares no files.
	Files map[string][]byte
	// Stderr shows what is written to it while the tool runs, to those who follow the events of the Session. In process
	// it is discarded, and a capstantest.Match gets none. The end of stderr in an error is what the function returns.
	Stderr io.Writer
	// Context ends when the tool is stopped: its pod is deleted, the Turn has ended, or its timeout has passed. A
	// capstantest.Match gets none.
	Context context.Context //nolint:containedctx // It is the life of this one call, as that of an http.Request.
}

// Runner returns the result of a tool call: the tool's stdout and stderr, and its exit code. With exit code 0 the
// result is stdout, of which the model is shown at most 64 KiB; with any other it is an error that carries the end of
// stderr. It may block. In process, a call whose function panics fails, or, for an AtMostOnce Tool, has an unknown
// outcome; a function that exceeds its timeout is abandoned.
type Runner func(call Call) (stdout, stderr string, exit int)
