// Command record runs a chat under a pseudo-terminal, kills the manager in mid sentence, and writes what the terminal
// has shown and when: as a recording (chat.cast) and as a picture (chat.svg). hack/record.sh prepares the cluster.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/creack/pty"
)

const (
	columns = 100
	// patience is how long the chat may take to show what comes next.
	patience = 2 * time.Minute
	// pause is the longest time in which the recording stands still.
	pause = 2 * time.Second
	// struckAfter is how many words of the response are shown before the manager is killed.
	struckAfter = 14

	title   = "A chat goes on while its manager is killed"
	message = "What happens to this chat when your manager dies?"
)

// shownCommands are the commands of the recording, as typed: the chat, and what proves that the manager was killed.
var shownCommands = []string{"kubectl capstan chat demo", "kubectl -n capstan-system get pods"}

func main() {
	kill := flag.String("kill", "", "a command that kills the process of the manager, and prints what it did in one line")
	out := flag.String("out", "docs", "the folder for chat.cast and chat.svg")
	draw := flag.Bool("draw", false, "only draw chat.svg from chat.cast")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := write(ctx, *kill, *out, *draw)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

func write(ctx context.Context, kill, out string, draw bool) error {
	path := filepath.Join(out, "chat.cast")
	if !draw {
		r, err := record(ctx, kill)
		if err != nil {
			return err
		}
		var b bytes.Buffer
		if err := r.whole().hurried(pause).encode(&b); err != nil {
			return err
		}
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	r, err := decode(file)
	if err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	var b bytes.Buffer
	if err := r.render(&b); err != nil {
		return fmt.Errorf("drawing %s: %w", path, err)
	}
	return os.WriteFile(filepath.Join(out, "chat.svg"), b.Bytes(), 0o644)
}

// camera keeps what a terminal shows, with the time.
type camera struct {
	began time.Time

	mu      sync.Mutex
	moments []moment
	text    strings.Builder
}

func (c *camera) see(kind, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moments = append(c.moments, moment{at: time.Since(c.began), kind: kind, text: text})
	if kind == shown {
		c.text.WriteString(text)
	}
}

// Write implements io.Writer.
func (c *camera) Write(text []byte) (int, error) {
	c.see(shown, string(text))
	return len(text), nil
}

var styles = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// plain is what was shown so far, without styles.
func (c *camera) plain() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return plain(c.text.String())
}

func plain(text string) string {
	return strings.ReplaceAll(styles.ReplaceAllString(text, ""), "\r\n", "\n")
}

// until waits until what was shown fulfils a condition.
func (c *camera) until(ctx context.Context, what string, fulfilled func(string) bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for !fulfilled(c.plain()) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the terminal does not show %s: %w; it shows\n%s", what, ctx.Err(), c.plain())
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// spoken are the words that the agent has said.
func spoken(text string) string {
	_, words, _ := strings.Cut(text, "agent      ")
	words, _, _ = strings.Cut(words, "── done")
	return words
}

func record(ctx context.Context, kill string) (recording, error) {
	c := &camera{began: time.Now()}
	if err := chat(ctx, c, kill); err != nil {
		return recording{}, err
	}
	c.see(shown, prompt(shownCommands[1])+"\r\n")
	pods, err := exec.CommandContext(ctx, "bash", "-c", shownCommands[1]).Output()
	if err != nil {
		return recording{}, fmt.Errorf("%s: %w", shownCommands[1], err)
	}
	c.see(shown, strings.ReplaceAll(string(pods), "\n", "\r\n"))
	rows := strings.Count(c.plain(), "\n") + 1
	return recording{
		header:  header{Version: 2, Width: columns, Height: rows, Title: title},
		moments: c.moments,
	}, nil
}

func prompt(command string) string { return "\x1b[2m$\x1b[0m " + command }

// chat sends the message, and kills the manager when it has heard a part of the response.
func chat(ctx context.Context, c *camera, kill string) error {
	c.see(shown, prompt(shownCommands[0])+"\r\n")
	command := exec.CommandContext(ctx, "bash", "-c", "exec "+shownCommands[0])
	command.Env = append(os.Environ(), "TERM=xterm")
	terminal, err := pty.StartWithSize(command, &pty.Winsize{Rows: 40, Cols: columns})
	if err != nil {
		return fmt.Errorf("starting the chat: %w", err)
	}
	defer terminal.Close()
	ended := make(chan error, 1)
	go func() {
		// Reading a terminal ends with an error when the program ends.
		_, _ = io.Copy(c, terminal)
		ended <- command.Wait()
	}()
	if err := c.until(ctx, "a prompt", func(s string) bool { return strings.Contains(s, "you  ") }); err != nil {
		return err
	}
	pace := time.NewTicker(40 * time.Millisecond) // a person types
	defer pace.Stop()
	for _, key := range message + "\n" {
		if _, err := terminal.WriteString(string(key)); err != nil {
			return fmt.Errorf("typing: %w", err)
		}
		select {
		case <-pace.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	err = c.until(ctx, "half a sentence", func(s string) bool { return len(strings.Fields(spoken(s))) >= struckAfter })
	if err != nil {
		return err
	}
	struck, err := exec.CommandContext(ctx, "bash", "-c", kill).Output()
	if err != nil {
		return fmt.Errorf("killing the manager: %w", err)
	}
	c.see(marked, strings.TrimSpace(string(struck)))
	done := func(s string) bool {
		_, after, found := strings.Cut(s, "── done")
		return found && strings.Contains(after, "you  ")
	}
	if err := c.until(ctx, "the end of the Turn", done); err != nil {
		return err
	}
	if _, err := terminal.WriteString("\x04"); err != nil {
		return fmt.Errorf("leaving the chat: %w", err)
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return errors.Join(ctx.Err(), errors.New("the chat does not end"))
	}
}
