package command

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

const (
	// maxAttachments is the most images of a message, which has 32 parts with its text.
	maxAttachments = 31
	// maxInlineBytes is what the images of a message may have by value, in base64: the message has 1 MiB with its text.
	maxInlineBytes = 1<<20 - maxMessageBytes
)

// attachment is a local image that a message is sent with.
type attachment struct {
	file    string
	content []byte
}

// imageFlag adds the flag for images.
func imageFlag(cmd *cobra.Command, files *[]string, which string) {
	cmd.Flags().StringArrayVarP(files, "image", "i", nil,
		"A PNG, JPEG, GIF or WebP file to send with "+which+". May be repeated.")
	if err := cmd.MarkFlagFilename("image", "png", "jpg", "jpeg", "gif", "webp"); err != nil {
		panic(err) // the flag is the one of the line above
	}
}

// attachments reads local images.
func (p *program) attachments(files []string) ([]attachment, error) {
	if len(files) > maxAttachments {
		return nil, usage("a message has at most %d images", maxAttachments)
	}
	var all []attachment
	for _, file := range files {
		content, err := p.localImage(file)
		if err != nil {
			return nil, err
		}
		all = append(all, attachment{file: file, content: content})
	}
	return all, nil
}

// attach sends images with the next message of a conversation: by value as far as a message has room for them, and the
// others are stored in the Session first.
func (p *program) attach(ctx context.Context, conv *conversation, all []attachment) error {
	size := 0
	for _, a := range all {
		encoded := base64.StdEncoding.EncodeToString(a.content)
		if size+len(encoded) <= maxInlineBytes {
			size += len(encoded)
			conv.attached = append(conv.attached, v1alpha1.MessagePart{Image: &v1alpha1.MessageImage{
				MediaType: v1alpha1.ImageMediaType(http.DetectContentType(a.content)), Data: encoded,
			}})
			continue
		}
		s, err := p.storesAt(conv.cluster, conv.session)
		if err != nil {
			return err
		}
		stored, err := p.imagesAt(s).Put(ctx, filenameOf(a.file), nil, a.content)
		if err != nil {
			return fmt.Errorf("storing image %s, for which a message has no room: %w", a.file, err)
		}
		conv.attached = append(conv.attached, v1alpha1.MessagePart{
			ImageRef: &v1alpha1.MessageImageRef{ID: stored.ID},
		})
	}
	return nil
}
