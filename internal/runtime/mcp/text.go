package mcp

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capstan-dev/capstan/internal/runtime/tool/content"
)

// textOf is a result in the form of package content: its texts, or an array of blocks if there is an image. Structured
// content counts where there is no text, which has the same for clients that do not know it.
func textOf(answer *sdk.CallToolResult) string {
	blocks := make([]content.Block, 0, len(answer.Content)+1)
	image, text := false, false
	for _, c := range answer.Content {
		switch c := c.(type) {
		case *sdk.TextContent:
			text = true
			blocks = append(blocks, content.Text(c.Text))
		case *sdk.ImageContent:
			image = true
			blocks = append(blocks, content.Image(c.MIMEType, c.Data))
		case *sdk.AudioContent:
			blocks = append(blocks, content.Text(fmt.Sprintf("(Left out: audio of type %.64q.)", c.MIMEType)))
		default:
			// A resource, or a link to one.
			if raw, err := json.Marshal(c); err == nil {
				blocks = append(blocks, content.Text(string(raw)))
			}
		}
	}
	if answer.StructuredContent != nil && !text {
		if raw, err := json.Marshal(answer.StructuredContent); err == nil {
			blocks = slices.Insert(blocks, 0, content.Text(string(raw)))
		}
	}
	if image {
		// A block has only strings, so that encoding it cannot fail.
		if raw, err := json.Marshal(blocks); err == nil {
			return string(raw)
		}
	}
	texts := make([]string, len(blocks))
	for i, b := range blocks {
		texts[i] = b.Text
	}
	return strings.Join(texts, "\n")
}
