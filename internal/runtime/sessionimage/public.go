package sessionimage

import stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"

// Public returns the description as people are shown it.
func (i *Info) Public() stream.Image {
	return stream.Image{
		ID: i.ID, Filename: i.Filename, ContentType: i.ContentType, Size: i.Size, Metadata: i.Metadata, CreatedAt: i.Created,
	}
}
