package shell

import (
	"context"
	"errors"
	"io"

	"github.com/capstan-dev/capstan/internal/runtime/runner"
)

// Request is what a process is to run. It is sent to it once.
type Request struct {
	// Command is the script.
	Command string `json:"command"`
	// Env are the environment variables, as NAME=value. Of two with the same name the last counts.
	Env []string `json:"env"`
	// Files are what the script finds besides the files of the Session.
	Files []File `json:"files"`
	// TimeoutMillis is how long the script may run.
	TimeoutMillis int64 `json:"timeoutMillis"`
	// NoSession reports that there are no files of a Session.
	NoSession bool `json:"noSession,omitempty"`
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

// Source has the files of a Session. It is asked once a script needs them.
type Source interface {
	// List describes all files, without content. It is called once, before Read.
	List(ctx context.Context) ([]File, error)
	// Read returns the content of a file by its path as the script sees it.
	Read(ctx context.Context, name string) ([]byte, error)
}

// Message is what a process sends: that it needs files, or the end of its script.
type Message struct {
	// List asks for the files of the Session, as a Listing.
	List bool `json:"list,omitempty"`
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

// Listing describes the files of a Session for a process that has asked for them.
type Listing struct {
	Files []File `json:"files,omitempty"`
	Error string `json:"error,omitempty"`
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

// source asks the other side for the files of the Session. It is used by one caller at a time.
type source struct {
	in  io.Reader
	out io.Writer
}

// List implements Source.
func (s source) List(context.Context) ([]File, error) {
	if err := runner.Send(s.out, MaxReplyBytes, Message{List: true}); err != nil {
		return nil, err
	}
	var l Listing
	if err := runner.Receive(s.in, MaxRequestBytes, &l); err != nil {
		return nil, err
	}
	if l.Error != "" {
		return nil, errors.New(l.Error)
	}
	return l.Files, nil
}

// Read implements Source.
func (s source) Read(_ context.Context, name string) ([]byte, error) {
	if err := runner.Send(s.out, MaxReplyBytes, Message{Read: name}); err != nil {
		return nil, err
	}
	var c Content
	if err := runner.Receive(s.in, MaxRequestBytes, &c); err != nil {
		return nil, err
	}
	if c.Error != "" {
		return nil, errors.New(c.Error)
	}
	return c.Content, nil
}
