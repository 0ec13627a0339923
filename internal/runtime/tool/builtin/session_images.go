package builtin

import (
	"context"
	"encoding/base64"
	"fmt"
	"path"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/sessionfs"
	"github.com/capstan-dev/capstan/internal/runtime/sessionimage"
	"github.com/capstan-dev/capstan/internal/runtime/tool/content"
)

// imageIDSchema is the schema of the id of an image.
const imageIDSchema = `{"type": "string", "pattern": "^img-[0-9a-f]{32}$"}`

// sessionImages lets the model look at the images of the Session, and at its files that are images (IMG-01). A result
// names the image, whose bytes are read when the model is called, so that it is not bounded as other results are.
//
// The tools are in the class of files, in the order of the response: one may look at a file that another has written.
var sessionImages = Capability{
	Name:        "session_images",
	Description: "Lets the model list, look at and delete the images of the Session, and look at files that are images.",
	Tools: []Tool{
		{
			Name: "list_images",
			Description: "Lists the images of this session, those that were stored last first: of messages, of results of " +
				"tools, and those that users have stored. It shows none of them.",
			InputSchema:      `{"type": "object", "additionalProperties": false}`,
			ConcurrencyClass: fileClass,
			Run:              withImages(listImages),
		},
		{
			Name: "view_image",
			Description: "Shows an image of this session by its id, or a file of this session that is a PNG, JPEG, GIF or " +
				"WebP image by its path. A file that is shown becomes an image of the session. Set exactly one of id and path.",
			SideEffect: v1alpha1.SideEffectIdempotent,
			InputSchema: `{
  "type": "object",
  "properties": {"id": ` + imageIDSchema + `, "path": ` + pathSchema + `},
  "additionalProperties": false
}`,
			ConcurrencyClass: fileClass,
			Run:              withImages(viewImage),
		},
		{
			Name: "delete_image",
			Description: "Deletes an image of this session, and returns whether it existed. You are not shown it any more, " +
				"also where it was shown before.",
			SideEffect: v1alpha1.SideEffectIdempotent,
			InputSchema: `{
  "type": "object",
  "required": ["id"],
  "properties": {"id": ` + imageIDSchema + `},
  "additionalProperties": false
}`,
			ConcurrencyClass: fileClass,
			Run:              withImages(deleteImage),
		},
	},
}

// imageArguments are the arguments of all tools.
type imageArguments struct{ ID, Path string }

// withImages returns the Run of a tool that needs the images of the Session.
func withImages(
	run func(context.Context, Call, Images, imageArguments) (any, error),
) func(context.Context, Call) (any, error) {
	return using("images", func(s Services) Images { return s.Images }, run)
}

// listedImage is an image as list_images returns it.
type listedImage struct {
	ID       string    `json:"id"`
	Filename string    `json:"filename,omitempty"`
	Type     string    `json:"content_type"`
	Size     int64     `json:"size_bytes"`
	Created  time.Time `json:"created_at"`
}

func listImages(ctx context.Context, _ Call, images Images, _ imageArguments) (any, error) {
	all, err := images.List(ctx)
	listed := make([]listedImage, len(all))
	for i, info := range all {
		listed[i] = listedImage{info.ID, info.Filename, info.ContentType, info.Size, info.Created}
	}
	return map[string][]listedImage{"images": listed}, err
}

func viewImage(ctx context.Context, call Call, images Images, a imageArguments) (any, error) {
	if (a.ID == "") == (a.Path == "") {
		return nil, Errorf("Set exactly one of id and path.")
	}
	info, err := images.Stat(ctx, a.ID)
	if a.Path != "" {
		info, err = storeFile(ctx, call, images, a.Path)
	}
	switch {
	case err != nil:
		return nil, err
	case info == nil:
		return nil, Errorf("This session has no image %s.", a.ID)
	}
	about := fmt.Sprintf("%s, %s of %d bytes", info.ID, info.ContentType, info.Size)
	return []content.Block{content.Text(about), content.Stored(info.ID)}, nil
}

// storeFile stores a file of the Session as an image.
func storeFile(ctx context.Context, call Call, images Images, at string) (*sessionimage.Info, error) {
	if call.Services.Files == nil {
		return nil, Errorf("This session has no files.")
	}
	file, err := call.Services.Files.Read(ctx, at)
	switch {
	case err != nil:
		return nil, err
	case file == nil:
		return nil, Errorf("%s does not exist.", at)
	case file.IsDirectory:
		return nil, Errorf("%s is a directory.", file.Path)
	}
	bytes := []byte(file.Content)
	if file.Encoding == sessionfs.Base64 {
		if bytes, err = base64.StdEncoding.DecodeString(file.Content); err != nil {
			return nil, fmt.Errorf("decoding file %s: %w", file.Path, err)
		}
	}
	mediaType, err := sessionimage.TypeOf(bytes)
	if err != nil {
		return nil, err
	}
	return images.Create(ctx, call.Cause, sessionimage.Draft{
		Filename: path.Base(file.Path), ContentType: mediaType, Bytes: bytes,
	})
}

func deleteImage(ctx context.Context, call Call, images Images, a imageArguments) (any, error) {
	existed, err := images.Delete(ctx, call.Cause, a.ID)
	return map[string]bool{"existed": existed}, err
}
