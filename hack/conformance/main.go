// The program conformance writes docs/conformance.md: which tests hold each rule of docs/design/rules.md. A test names
// the rules that it holds in a comment above it or within it, or in its own name.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	root := flag.String("root", ".", "folder of the repository")
	flag.Parse()
	if err := write(*root); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

// write generates the document of a repository. It changes the file only when its content differs.
func write(root string) error {
	text, err := os.ReadFile(filepath.Join(root, "docs", "design", "rules.md"))
	if err != nil {
		return fmt.Errorf("read the rules: %w", err)
	}
	rules := rulesOf(string(text))
	if len(rules) == 0 {
		return errors.New("docs/design/rules.md has no table of rules")
	}
	held, err := testsBelow(root)
	if err != nil {
		return fmt.Errorf("find the tests: %w", err)
	}
	document, err := render(rules, held)
	if err != nil {
		return err
	}
	target := filepath.Join(root, "docs", "conformance.md")
	if before, err := os.ReadFile(target); err == nil && string(before) == document {
		return nil
	}
	fmt.Println("    docs/conformance.md")
	if err := os.WriteFile(target, []byte(document), 0o644); err != nil {
		return fmt.Errorf("write the document: %w", err)
	}
	return nil
}
