package sessionfs

import stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"

// Public is what users get to know of a file.
func (i *Info) Public() stream.File {
	return stream.File{
		Path: i.Path, Directory: i.IsDirectory, ReadOnly: i.IsReadOnly, Encoding: string(i.Encoding), Size: i.Size,
		CreatedAt: i.Created, UpdatedAt: i.Updated,
	}
}
