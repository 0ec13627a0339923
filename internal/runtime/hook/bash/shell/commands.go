package shell

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
)

// commandContext is one call of a command.
type commandContext struct {
	ctx            context.Context //nolint:containedctx // It lives as long as the call.
	files          *fileSystem
	dir            string
	env            expand.Environ
	name           string
	args           []string
	stdin          io.Reader
	stdout, stderr io.Writer
}

// commands are those that a script can run besides the builtins of the shell. Each takes the options that its usage in
// docs/hooks.md lists, and no others.
var commands map[string]func(*commandContext) error

func init() {
	commands = map[string]func(*commandContext) error{
		"base64": base64Command, "basename": basename, "cat": cat, "cp": cp, "cut": cut, "date": date, "dirname": dirname,
		"env": printenv, "grep": grep, "head": headCommand, "jq": jq, "ls": ls, "mkdir": mkdir, "mv": mv,
		"printenv": printenv, "rm": rm, "sha256sum": sha256sum, "sleep": sleep, "sort": sortCommand, "tail": tail,
		"tee": tee, "touch": touch, "tr": tr, "uniq": uniq, "wc": wc,
	}
}

// options are the options of a command: letters, some with a value.
type options struct {
	set    map[byte]bool
	values map[byte]string
	rest   []string
}

// has reports whether an option is there.
func (o options) has(letter byte) bool { return o.set[letter] }

// number is the value of an option, or a default.
func (o options) number(letter byte, otherwise int) (int, error) {
	text, ok := o.values[letter]
	if !ok {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("invalid number %.64q", text)
	}
	return n, nil
}

// options reads the options of a command. Letters with a colon behind them have a value, as with getopts.
func (c *commandContext) options(letters string) (options, error) {
	o := options{set: map[byte]bool{}, values: map[byte]string{}}
	args := c.args
	for ; len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-'; args = args[1:] {
		if args[0] == "--" {
			args = args[1:]
			break
		}
		for group := args[0][1:]; group != ""; {
			letter := group[0]
			group = group[1:]
			at := strings.IndexByte(letters, letter)
			if at < 0 || letter == ':' {
				return o, c.usage("unknown option -- %c", letter)
			}
			o.set[letter] = true
			if at+1 == len(letters) || letters[at+1] != ':' {
				continue
			}
			if group == "" {
				if len(args) < 2 {
					return o, c.usage("option requires a value -- %c", letter)
				}
				args = args[1:]
				group = args[0]
			}
			o.values[letter], group = group, ""
		}
	}
	o.rest = args
	return o, nil
}

// usage reports a wrong call.
func (c *commandContext) usage(format string, args ...any) error {
	fmt.Fprintf(c.stderr, "%s: %s\n", c.name, fmt.Sprintf(format, args...))
	return interp.ExitStatus(2)
}

// path is the path of a name as the script writes it.
func (c *commandContext) path(name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join(c.dir, name)
}

// input is the content of files, or the standard input for none and for "-".
func (c *commandContext) input(names []string) ([]byte, error) {
	if len(names) == 0 {
		names = []string{"-"}
	}
	var all []byte
	for _, name := range names {
		content, err := c.read(name)
		if err != nil {
			return nil, err
		}
		all = append(all, content...)
	}
	return all, nil
}

func (c *commandContext) read(name string) ([]byte, error) {
	if name != "-" {
		return c.files.read(c.path(name))
	}
	content, err := io.ReadAll(io.LimitReader(c.stdin, MaxFileBytes+1))
	if err == nil && len(content) > MaxFileBytes {
		err = fmt.Errorf("the input has more than %d bytes", MaxFileBytes)
	}
	return content, err
}

// lines are the lines of files, without their ends.
func (c *commandContext) lines(names []string) ([]string, error) {
	content, err := c.input(names)
	if err != nil {
		return nil, err
	}
	return split(content), nil
}

func split(content []byte) []string {
	if len(content) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
}

// print writes lines.
func (c *commandContext) print(lines []string) error {
	w := bufio.NewWriter(c.stdout)
	for _, line := range lines {
		if _, err := w.WriteString(line + "\n"); err != nil {
			return err
		}
	}
	return w.Flush()
}

// one is the error of a call that needs a number of names.
func (c *commandContext) atLeast(o options, n int) error {
	if len(o.rest) < n {
		return c.usage("missing operand")
	}
	return nil
}

func cat(c *commandContext) error {
	o, err := c.options("")
	if err != nil {
		return err
	}
	if len(o.rest) == 0 {
		o.rest = []string{"-"}
	}
	for _, name := range o.rest {
		if name == "-" {
			if _, err := io.Copy(c.stdout, c.stdin); err != nil {
				return err
			}
			continue
		}
		content, err := c.read(name)
		if err != nil {
			return err
		}
		if _, err := c.stdout.Write(content); err != nil {
			return err
		}
	}
	return nil
}

func basename(c *commandContext) error {
	o, err := c.options("")
	if err != nil {
		return err
	}
	if err := c.atLeast(o, 1); err != nil {
		return err
	}
	name := path.Base(o.rest[0])
	if len(o.rest) > 1 && o.rest[1] != name {
		name = strings.TrimSuffix(name, o.rest[1])
	}
	return c.print([]string{name})
}

func dirname(c *commandContext) error {
	o, err := c.options("")
	if err != nil {
		return err
	}
	if err := c.atLeast(o, 1); err != nil {
		return err
	}
	return c.print([]string{path.Dir(o.rest[0])})
}

func printenv(c *commandContext) error {
	o, err := c.options("")
	if err != nil {
		return err
	}
	if len(o.rest) == 0 {
		var all []string
		c.env.Each(func(name string, v expand.Variable) bool {
			if v.Exported && v.Kind == expand.String {
				all = append(all, name+"="+v.Str)
			}
			return true
		})
		return c.print(all)
	}
	v := c.env.Get(o.rest[0])
	if !v.IsSet() || !v.Exported {
		return interp.ExitStatus(1)
	}
	return c.print([]string{v.String()})
}

func headCommand(c *commandContext) error {
	o, err := c.options("n:c:")
	if err != nil {
		return err
	}
	if o.has('c') {
		n, err := o.number('c', 0)
		if err != nil {
			return err
		}
		content, err := c.input(o.rest)
		if err != nil {
			return err
		}
		_, err = c.stdout.Write(content[:min(n, len(content))])
		return err
	}
	n, err := o.number('n', 10)
	if err != nil {
		return err
	}
	lines, err := c.lines(o.rest)
	if err != nil {
		return err
	}
	return c.print(lines[:min(n, len(lines))])
}

func tail(c *commandContext) error {
	o, err := c.options("n:")
	if err != nil {
		return err
	}
	n, err := o.number('n', 10)
	if err != nil {
		return err
	}
	lines, err := c.lines(o.rest)
	if err != nil {
		return err
	}
	return c.print(lines[max(len(lines)-n, 0):])
}

func wc(c *commandContext) error {
	o, err := c.options("lwc")
	if err != nil {
		return err
	}
	content, err := c.input(o.rest)
	if err != nil {
		return err
	}
	var counts []string
	for _, count := range []struct {
		letter byte
		n      int
	}{{'l', bytes.Count(content, []byte("\n"))}, {'w', len(bytes.Fields(content))}, {'c', len(content)}} {
		if len(o.set) == 0 || o.has(count.letter) {
			counts = append(counts, strconv.Itoa(count.n))
		}
	}
	if len(o.rest) == 1 {
		counts = append(counts, o.rest[0])
	}
	return c.print([]string{strings.Join(counts, " ")})
}

func tee(c *commandContext) error {
	o, err := c.options("a")
	if err != nil {
		return err
	}
	content, err := c.input(nil)
	if err != nil {
		return err
	}
	for _, name := range o.rest {
		written := content
		if o.has('a') {
			before, err := c.files.read(c.path(name))
			if err == nil {
				written = append(bytes.Clone(before), content...)
			}
		}
		if err := c.files.write(c.path(name), written); err != nil {
			return err
		}
	}
	_, err = c.stdout.Write(content)
	return err
}
