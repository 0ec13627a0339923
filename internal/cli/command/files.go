package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/files"
	"github.com/capstan-dev/capstan/internal/cli/text"
	"github.com/capstan-dev/capstan/internal/runtime/sessionfs"
)

func (p *program) files() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "files",
		Short: "List, print and copy the files of a Session",
	}
	cmd.AddCommand(p.filesList(), p.filesPrint(), p.filesCopy())
	return cmd
}

func (p *program) filesList() *cobra.Command {
	var recursive bool
	var output string
	cmd := &cobra.Command{
		Use:   "ls SESSION[:PATH]",
		Short: "List the files of a Session",
		Long: `List the files and directories of a Session, with size and time of the last change. A Session that has not
used its files yet has none. It takes the role capstan-view.`,
		Example: `  kubectl capstan files ls demo
  kubectl capstan files ls demo:/outputs
  kubectl capstan files ls demo --recursive`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.sessions,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			return p.listFiles(cmd.Context(), placeOf(arguments[0]), recursive, output)
		},
	}
	cmd.Flags().BoolVarP(&recursive, "recursive", "R", false, "List all files below the directory.")
	outputFlag(cmd, &output)
	return cmd
}

func (p *program) filesPrint() *cobra.Command {
	return &cobra.Command{
		Use:   "cat SESSION:PATH",
		Short: "Print a file of a Session",
		Long: `Print a file of a Session. On a terminal control characters are shown as escape sequences, and a file that is
no text is refused; into a pipe or a file the bytes are written as they are. It takes the role capstan-view.`,
		Example: `  kubectl capstan files cat demo:/report.md
  kubectl capstan files cat demo:/chart.png > chart.png`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.sessions,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			return p.printFile(cmd.Context(), placeOf(arguments[0]))
		},
	}
}

func (p *program) filesCopy() *cobra.Command {
	return &cobra.Command{
		Use:   "cp FROM TO",
		Short: "Copy a file from or to a Session",
		Long: `Copy a file from a Session, or to one: of FROM and TO one is SESSION:PATH, and the other a local file, a
directory, or - for the standard input or output. A file has at most 512 KiB. To a Session it takes the role
capstan-edit, and the manager must be reachable.`,
		Example: `  kubectl capstan files cp demo:/report.md .
  kubectl capstan files cp data.csv demo:/data.csv`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			from, to := placeOf(arguments[0]), placeOf(arguments[1])
			switch {
			case from.session != "" && to.session == "":
				return p.download(cmd.Context(), from, to.path)
			case from.session == "" && to.session != "":
				return p.upload(cmd.Context(), from.path, to)
			default:
				return usage("one of FROM and TO is SESSION:PATH, and the other one is local")
			}
		},
	}
}

// place is a path in a Session, or a local one without a Session.
type place struct{ session, path string }

// sessionPlace is a Session with a path. Everything else is local.
var sessionPlace = regexp.MustCompile(`^([a-z0-9][a-z0-9.-]*):(.*)$`)

// placeOf reads an argument.
func placeOf(argument string) place {
	if found := sessionPlace.FindStringSubmatch(argument); found != nil {
		return place{found[1], found[2]}
	}
	return place{path: argument}
}

// filesOf returns the files of a Session.
func (p *program) filesOf(ctx context.Context, name string) (*files.Files, error) {
	s, err := p.storesOf(ctx, name)
	if err != nil {
		return nil, err
	}
	return &files.Files{Manager: s.manager, Records: s.records, Note: p.note, Session: s.session}, nil
}

func (p *program) listFiles(ctx context.Context, at place, recursive bool, output string) error {
	if at.session == "" {
		at = place{session: at.path}
	}
	of, err := p.filesOf(ctx, at.session)
	if err != nil {
		return err
	}
	all, err := of.List(ctx, at.path, recursive)
	if err != nil {
		return err
	}
	if output == "json" {
		return p.printJSON(stream.FileList{Files: all})
	}
	if len(all) == 0 {
		return p.out.Lines(text.Of(text.Faint, "no files"))
	}
	rows := [][]string{{"PATH", "BYTES", "CHANGED", ""}}
	for _, f := range all {
		row := []string{f.Path, strconv.FormatInt(f.Size, 10), "", ""}
		if f.Directory {
			row[0], row[1] = f.Path+"/", ""
		}
		if f.UpdatedAt != nil {
			row[2] = f.UpdatedAt.UTC().Format(time.RFC3339)
		}
		if f.ReadOnly {
			row[3] = "read-only"
		}
		rows = append(rows, row)
	}
	return p.out.Lines(text.Table(rows)...)
}

func (p *program) printFile(ctx context.Context, at place) error {
	content, err := p.readFile(ctx, at)
	if err != nil {
		return err
	}
	if !isTerminal(p.out.Out) {
		return p.outputBytes(content)
	}
	if !sessionfs.IsText(content) {
		return fmt.Errorf("%s is no text: kubectl capstan files cp %s:%s . copies it", at.path, at.session, at.path)
	}
	return p.out.Lines(text.Block(text.Span{}, 0, text.Plain, string(content), text.Bound{})...)
}

func (p *program) readFile(ctx context.Context, at place) ([]byte, error) {
	if at.session == "" || at.path == "" {
		return nil, usage("name a file as SESSION:PATH")
	}
	of, err := p.filesOf(ctx, at.session)
	if err != nil {
		return nil, err
	}
	return of.Read(ctx, at.path)
}

func (p *program) outputBytes(content []byte) error {
	if _, err := p.out.Out.Write(content); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}

func (p *program) download(ctx context.Context, from place, to string) error {
	content, err := p.readFile(ctx, from)
	if err != nil {
		return err
	}
	if to == "-" {
		return p.outputBytes(content)
	}
	if info, err := os.Stat(to); err == nil && info.IsDir() {
		to = filepath.Join(to, path.Base(from.path))
	}
	if err := os.WriteFile(to, content, 0o600); err != nil {
		return fmt.Errorf("copying %s: %w", from.path, err)
	}
	return p.out.Lines(text.Format(text.Good, "%s: %d bytes.", to, len(content)))
}

func (p *program) upload(ctx context.Context, from string, to place) error {
	content, err := p.localFile(from)
	if err != nil {
		return err
	}
	if to.path == "" || strings.HasSuffix(to.path, "/") {
		if from == "-" {
			return usage("name the file in the Session")
		}
		to.path += "/" + filepath.Base(from)
	}
	of, err := p.filesOf(ctx, to.session)
	if err != nil {
		return err
	}
	written, err := of.Write(ctx, to.path, content)
	if err != nil {
		return err
	}
	word := "replaced"
	if written.Created {
		word = "created"
	}
	return p.out.Lines(text.Format(text.Good, "%s %s: %d bytes.", written.Path, word, written.Size))
}

// localFile reads a local file as far as it may have.
func (p *program) localFile(from string) ([]byte, error) {
	content, err := p.local(from, stream.MaxFileBytes)
	if err != nil {
		return nil, err
	}
	if len(content) > stream.MaxFileBytes {
		return nil, errors.New("a file of a Session has at most " + strconv.Itoa(stream.MaxFileBytes) + " bytes")
	}
	return content, nil
}
