package platform

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

// maxArgumentsBytes bounds the arguments, which have at most 96 KiB.
const maxArgumentsBytes = 128 << 10

// arguments are those of all tools. A tool ignores those of others, which its schema does not admit.
type arguments struct {
	Kind     string          `json:"kind"`
	Name     string          `json:"name"`
	Spec     json.RawMessage `json:"spec"`
	Limit    int             `json:"limit"`
	Continue string          `json:"continue"`
	Archived bool            `json:"archived"`
	Restore  bool            `json:"restore"`
	Session  string          `json:"session"`
	Message  string          `json:"message"`
	Seconds  int             `json:"timeout_seconds"`
}

// call is one call of a tool.
type call struct {
	*api
	arguments
	// session and turn are those of the agent that makes the call.
	session, turn string
	// id identifies the call.
	id string
}

// Main runs the tool that the environment names, with the arguments of stdin. It writes the result to stdout, and an
// error for the model to stderr, and returns the exit code.
func Main(ctx context.Context, getenv func(string) string, stdin io.Reader, stdout, stderr io.Writer) int {
	value, err := run(ctx, getenv, stdin)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	if _, err := stdout.Write(value); err != nil {
		return 1
	}
	return 0
}

// MainOfProcess runs Main for this process.
func MainOfProcess() int {
	return Main(context.Background(), os.Getenv, os.Stdin, os.Stdout, os.Stderr)
}

func run(ctx context.Context, getenv func(string) string, stdin io.Reader) ([]byte, error) {
	carryOut, known := tools[getenv(result.EnvTool)]
	if !known {
		return nil, fmt.Errorf("there is no tool %q in the capability %s", getenv(result.EnvTool), Capability)
	}
	raw, err := io.ReadAll(io.LimitReader(stdin, maxArgumentsBytes))
	if err != nil {
		return nil, fmt.Errorf("reading the arguments: %w", err)
	}
	c := &call{
		session: getenv(result.EnvSession), turn: getenv(result.EnvTurn), id: hashOf(getenv(result.EnvIdempotencyKey)),
	}
	if err := json.Unmarshal(raw, &c.arguments); err != nil {
		return nil, errors.New("the arguments are not valid")
	}
	if c.api, err = connect(getenv); err != nil {
		return nil, err
	}
	within := limit
	if getenv(result.EnvTool) == WaitTool {
		within = MaxWait + requestTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	value, err := carryOut(ctx, c)
	if err != nil {
		return nil, err
	}
	return encode(value)
}

// tools are the tools by name.
var tools = map[string]func(context.Context, *call) (any, error){
	ListTool: list, GetTool: get, CreateTool: create, UpdateTool: update, ArchiveTool: archive,
	SendTool: send, RecentTool: recent, WaitTool: wait,
}

func encode(value any) ([]byte, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("encoding the result: %w", err)
	}
	return bytes.TrimSpace(buffer.Bytes()), nil
}

// named checks the kind and the name in the arguments.
func (c *call) named() (kind, error) {
	k, known := kinds[c.Kind]
	switch {
	case !known:
		return kind{}, errors.New("kind must be harness, agent or session")
	case !validName(c.Name):
		return kind{}, errors.New("name is not the name of an object")
	default:
		return k, nil
	}
}

// other checks that a Session is not the one of the agent.
func (c *call) other(session, what string) error {
	switch {
	case !validName(session):
		return errors.New("session is not the name of a Session")
	case session == c.session:
		return fmt.Errorf("session %s is your own: you cannot %s", session, what)
	default:
		return nil
	}
}

// wait returns how long a wait may take.
func (a arguments) wait() time.Duration {
	if a.Seconds <= 0 {
		return DefaultWait
	}
	return min(time.Duration(min(a.Seconds, int(MaxWait/time.Second)))*time.Second, MaxWait)
}
