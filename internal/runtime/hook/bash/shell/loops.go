package shell

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// iteration is the command that counts an iteration. A script that calls it itself has fewer iterations left.
const iteration = "__iteration"

// counted makes every loop count its iterations. It reports whether there is one.
func counted(file *syntax.File) bool {
	found := false
	count := func(body []*syntax.Stmt) []*syntax.Stmt {
		found = true
		word := &syntax.Word{Parts: []syntax.WordPart{&syntax.Lit{Value: iteration}}}
		return append([]*syntax.Stmt{{Cmd: &syntax.CallExpr{Args: []*syntax.Word{word}}}}, body...)
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		switch loop := n.(type) {
		case *syntax.WhileClause:
			loop.Do = count(loop.Do)
		case *syntax.ForClause:
			loop.Do = count(loop.Do)
		}
		return true
	})
	return found
}

// countedText is a text that the script evaluates, with loops that count their iterations. A text that is invalid stays
// as it is: its evaluation reports that.
func countedText(text string) (string, error) {
	file, err := parse(text)
	switch {
	case errors.Is(err, errNesting):
		return "", err
	case err != nil:
		return text, nil
	case !counted(file):
		return text, nil
	}
	var printed strings.Builder
	if err := syntax.NewPrinter().Print(&printed, file); err != nil {
		return "", err
	}
	return printed.String(), nil
}

// evaluated replaces the text of a command that evaluates one, so that its loops are counted as well.
func (s *script) evaluated(ctx context.Context, args []string) ([]string, error) {
	at := 0
	for at < len(args)-1 && (args[at] == "builtin" || args[at] == "command" || args[at] == "--") {
		at++
	}
	args = slices.Clone(args)
	var err error
	switch rest := args[at+1:]; {
	case len(rest) == 0:
	case args[at] == "eval":
		var text string
		text, err = countedText(strings.Join(rest, " "))
		args = append(args[:at+1], text)
	case args[at] == "trap":
		for i := range rest {
			if err == nil {
				rest[i], err = countedText(rest[i])
			}
		}
	case args[at] == "source", args[at] == ".":
		rest[0], err = s.sourced(absolute(ctx, rest[0]), rest[0])
	}
	return args, err
}

// sourced returns the path of a script with loops that are counted, for a file with a script; its name if it has none.
func (s *script) sourced(path, name string) (string, error) {
	content, err := s.files.read(path)
	if err != nil {
		// The command reports it.
		return name, nil //nolint:nilerr // See above.
	}
	text, err := countedText(string(content))
	if err != nil || text == string(content) {
		return name, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// No file has such a path.
	hidden := "/\x00" + strconv.Itoa(s.commands)
	s.texts[hidden] = text
	return hidden, nil
}

// open opens a file of the script.
func (s *script) open(ctx context.Context, name string, flag int) (io.ReadWriteCloser, error) {
	s.mu.Lock()
	text, ok := s.texts[name]
	delete(s.texts, name)
	s.mu.Unlock()
	if ok {
		return &handle{files: s.files, name: name, content: []byte(text)}, nil
	}
	h, err := s.files.open(absolute(ctx, name), flag)
	if err != nil {
		return nil, err
	}
	return h, nil
}
