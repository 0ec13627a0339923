// The program clireference writes the reference of kubectl capstan into docs/cli.md, from the commands themselves.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/capstan-dev/capstan/internal/cli/command"
)

// The reference lies between these lines.
const (
	document = "docs/cli.md"
	begin    = "<!-- reference: begin -->\n"
	end      = "<!-- reference: end -->\n"
)

func main() {
	if err := write(); err != nil {
		fmt.Fprintln(os.Stderr, "clireference:", err)
		os.Exit(1)
	}
}

// write changes the document only when its content differs.
func write() error {
	content, err := os.ReadFile(document)
	if err != nil {
		return fmt.Errorf("read the document: %w", err)
	}
	before, rest, ok := strings.Cut(string(content), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return fmt.Errorf("%s has no place for the reference", document)
	}
	written := before + begin + reference(command.Root()) + end + after
	if written == string(content) {
		return nil
	}
	fmt.Println("    " + document)
	if err := os.WriteFile(document, []byte(written), 0o644); err != nil {
		return fmt.Errorf("write the document: %w", err)
	}
	return nil
}

// reference describes each command with its flags and examples.
func reference(root *cobra.Command) string {
	var b strings.Builder
	for _, c := range commands(root) {
		parents := ""
		for above := c.Parent(); above != root; above = above.Parent() {
			parents = above.Name() + " " + parents
		}
		fmt.Fprintf(&b, "\n### %s%s\n\n%s.\n\n```\nkubectl capstan %s%s\n```\n", parents, c.Name(), c.Short, parents, c.Use)
		flags := false
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name == "help" {
				return
			}
			if !flags {
				b.WriteString("\n| flag | |\n| --- | --- |\n")
				flags = true
			}
			name := "`--" + f.Name + "`"
			if f.Shorthand != "" {
				name += ", `-" + f.Shorthand + "`"
			}
			fmt.Fprintf(&b, "| %s | %s |\n", name, f.Usage)
		})
		fmt.Fprintf(&b, "\n```sh\n%s\n```\n", unindented(c.Example))
	}
	return b.String() + "\n"
}

// commands returns the commands that can be run, each behind those before it.
func commands(of *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	for _, c := range of.Commands() {
		switch {
		case c.Hidden:
		case c.HasSubCommands():
			all = append(all, commands(c)...)
		default:
			all = append(all, c)
		}
	}
	return all
}

func unindented(example string) string {
	lines := strings.Split(example, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, "  ")
	}
	return strings.Join(lines, "\n")
}
