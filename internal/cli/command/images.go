package command

import (
	"context"
	"fmt"
	"mime"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/images"
	"github.com/capstan-dev/capstan/internal/cli/text"
	"github.com/capstan-dev/capstan/internal/runtime/sessionimage"
)

func (p *program) images() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "images",
		Short: "List, store, copy and delete the images of a Session",
	}
	cmd.AddCommand(p.imagesList(), p.imagesPut(), p.imagesGet(), p.imagesRemove())
	return cmd
}

func (p *program) imagesList() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "ls SESSION",
		Short: "List the images of a Session",
		Long: `List the images of a Session, those that were stored last first. The images of messages and of results of
tools have no filename. It takes the role capstan-view.`,
		Example: `  kubectl capstan images ls demo
  kubectl capstan images ls demo --output json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.sessions,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			return p.listImages(cmd.Context(), arguments[0], output)
		},
	}
	outputFlag(cmd, &output)
	return cmd
}

func (p *program) imagesPut() *cobra.Command {
	var metadata map[string]string
	cmd := &cobra.Command{
		Use:   "put SESSION FILE",
		Short: "Store an image in a Session",
		Long: `Store a PNG, JPEG, GIF or WebP file of at most 3.75 MiB in a Session, and print the id by which messages can
name it. FILE is - for the standard input. It takes the role capstan-edit, and the manager must be reachable.`,
		Example: `  kubectl capstan images put demo ship.png
  kubectl capstan images put demo ship.png --metadata source=harbour`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: p.sessionThenFile,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			content, err := p.localImage(arguments[1])
			if err != nil {
				return err
			}
			of, err := p.imagesIn(cmd.Context(), arguments[0])
			if err != nil {
				return err
			}
			image, err := of.Put(cmd.Context(), filenameOf(arguments[1]), metadata, content)
			if err != nil {
				return err
			}
			return p.out.Lines(text.Format(text.Plain, "%s", image.ID))
		},
	}
	cmd.Flags().StringToStringVar(&metadata, "metadata", nil, "Metadata of the image, as KEY=VALUE. Up to 8 pairs.")
	return cmd
}

func (p *program) imagesGet() *cobra.Command {
	return &cobra.Command{
		Use:   "get SESSION ID [FILE]",
		Short: "Copy an image from a Session",
		Long: `Copy an image from a Session to a local file, to a directory, or to the standard output with -. Without FILE
the file has the id as its name, in this directory. It takes the role capstan-view.`,
		Example:           `  kubectl capstan images get demo img-0b41a6f5c2d84ee3a57be4a6e2b4ec0f ship.png`,
		Args:              cobra.RangeArgs(2, 3),
		ValidArgsFunction: p.sessions,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			to := "."
			if len(arguments) == 3 {
				to = arguments[2]
			}
			return p.copyImage(cmd.Context(), arguments[0], arguments[1], to)
		},
	}
}

func (p *program) imagesRemove() *cobra.Command {
	return &cobra.Command{
		Use:   "rm SESSION ID...",
		Short: "Delete images of a Session",
		Long: `Delete images of a Session. In later prompts of the Session a note stands in the place of each. It takes the
role capstan-edit, and the manager must be reachable.`,
		Example:           `  kubectl capstan images rm demo img-0b41a6f5c2d84ee3a57be4a6e2b4ec0f`,
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: p.sessions,
		RunE: func(cmd *cobra.Command, arguments []string) error {
			of, err := p.imagesIn(cmd.Context(), arguments[0])
			if err != nil {
				return err
			}
			for _, id := range arguments[1:] {
				if err := of.Delete(cmd.Context(), id); err != nil {
					return err
				}
				if err := p.out.Lines(text.Format(text.Good, "%s is deleted.", id)); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// sessionThenFile completes the name of a Session, and then the one of a local file.
func (p *program) sessionThenFile(
	cmd *cobra.Command, arguments []string, word string,
) ([]string, cobra.ShellCompDirective) {
	if len(arguments) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return p.sessions(cmd, arguments, word)
}

// imagesIn returns the images of a Session, by its name.
func (p *program) imagesIn(ctx context.Context, name string) (*images.Images, error) {
	s, err := p.storesOf(ctx, name)
	if err != nil {
		return nil, err
	}
	return p.imagesAt(s), nil
}

// imagesAt returns the images of the Session that has these stores.
func (p *program) imagesAt(s *stores) *images.Images {
	return &images.Images{
		Manager: s.manager, Records: sessionimage.Of(s.records, s.of), Note: p.note, Session: s.session,
	}
}

func (p *program) listImages(ctx context.Context, session, output string) error {
	of, err := p.imagesIn(ctx, session)
	if err != nil {
		return err
	}
	all, err := of.List(ctx)
	if err != nil {
		return err
	}
	if output == "json" {
		return p.printJSON(stream.ImageList{Items: all})
	}
	if len(all) == 0 {
		return p.out.Lines(text.Of(text.Faint, "no images"))
	}
	rows := [][]string{{"ID", "TYPE", "BYTES", "CREATED", "FILENAME"}}
	for i := range all {
		image := &all[i]
		rows = append(rows, []string{
			image.ID, image.ContentType, strconv.FormatInt(image.Size, 10), shownTime(&image.CreatedAt), image.Filename,
		})
	}
	return p.out.Lines(text.Table(rows)...)
}

func (p *program) copyImage(ctx context.Context, session, id, to string) error {
	of, err := p.imagesIn(ctx, session)
	if err != nil {
		return err
	}
	content, mediaType, err := of.Get(ctx, id)
	if err != nil {
		return err
	}
	if to == "-" {
		if isTerminal(p.out.Out) {
			return usage("an image is not for a terminal: name a file")
		}
		return p.outputBytes(content)
	}
	if info, err := os.Stat(to); err == nil && info.IsDir() {
		to = filepath.Join(to, id+extensionOf(mediaType))
	}
	if err := os.WriteFile(to, content, 0o600); err != nil {
		return fmt.Errorf("copying image %s: %w", id, err)
	}
	return p.out.Lines(text.Format(text.Good, "%s: %d bytes.", to, len(content)))
}

// extensionOf is how the name of a file with an image ends.
func extensionOf(mediaType string) string {
	kind, _, _ := mime.ParseMediaType(mediaType)
	if name, found := strings.CutPrefix(kind, "image/"); found && name != "" {
		return "." + name
	}
	return ""
}

// filenameOf is the name by which a local file is stored; empty for the standard input.
func filenameOf(file string) string {
	if file == "-" {
		return ""
	}
	return filepath.Base(file)
}

// localImage reads a local file that is an image.
func (p *program) localImage(file string) ([]byte, error) {
	content, err := p.local(file, stream.MaxImageBytes)
	if err != nil {
		return nil, err
	}
	if len(content) > stream.MaxImageBytes {
		return nil, fmt.Errorf("image %s has more than %d bytes (3.75 MiB)", file, stream.MaxImageBytes)
	}
	if _, err := sessionimage.TypeOf(content); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return content, nil
}
