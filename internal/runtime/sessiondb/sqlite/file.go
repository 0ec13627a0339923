package sqlite

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"

	"github.com/capstan-dev/capstan/internal/runtime/sessiondb/sqlcall"
)

// file is the file of a database in memory. Its parts are read when they are needed. It is used by one caller.
type file struct {
	ctx    context.Context //nolint:containedctx // It is the life of the one call that uses the file.
	source sqlcall.Source
	size   int64
	// stored is the size of the file that source has.
	stored int64
	chunks map[int][]byte
	// changed are the parts that differ from those of source.
	changed map[int]bool
	// broken is why a part could not be read.
	broken error
}

// system is the file system that has one file. It implements vfs.VFS.
type system struct{ file *file }

// systems counts the file systems, each of which has a name.
var systems atomic.Int64

// register makes a file the only one of a file system, and returns the address of it for the engine.
func (f *file) register() (address string, unregister func()) {
	name := "capstan-" + strconv.FormatInt(systems.Add(1), 10)
	vfs.Register(name, system{f})
	return "file:main?nolock=1&vfs=" + name, func() { vfs.Unregister(name) }
}

// Open implements vfs.VFS. There are no journals and no temporary files.
func (s system) Open(_ string, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	if flags&vfs.OPEN_MAIN_DB == 0 {
		return nil, flags, sqlite3.CANTOPEN
	}
	return s.file, flags | vfs.OPEN_MEMORY, nil
}

// Delete implements vfs.VFS.
func (system) Delete(string, bool) error { return sqlite3.IOERR_DELETE_NOENT }

// Access implements vfs.VFS.
func (system) Access(string, vfs.AccessFlag) (bool, error) { return false, nil }

// FullPathname implements vfs.VFS.
func (system) FullPathname(name string) (string, error) { return name, nil }

// chunk returns a part of the file, of the full length. The file has zeros beyond its size.
func (f *file) chunk(number int) ([]byte, error) {
	if content, known := f.chunks[number]; known {
		return content, nil
	}
	whole := make([]byte, sqlcall.ChunkBytes)
	if number < sqlcall.Chunks(f.stored) {
		content, err := f.source.Read(f.ctx, number)
		if err == nil && len(content) != sqlcall.ChunkSize(f.stored, number) {
			err = fmt.Errorf("part %d has %d bytes, not %d", number, len(content), sqlcall.ChunkSize(f.stored, number))
		}
		if err != nil {
			f.broken = err
			return nil, sqlite3.IOERR_READ
		}
		copy(whole, content)
	}
	f.chunks[number] = whole
	return whole, nil
}

// ReadAt implements io.ReaderAt.
func (f *file) ReadAt(b []byte, offset int64) (int, error) {
	read := 0
	for read < len(b) && offset < f.size {
		content, err := f.chunk(int(offset / sqlcall.ChunkBytes))
		if err != nil {
			return read, err
		}
		begin := offset % sqlcall.ChunkBytes
		end := min(sqlcall.ChunkBytes, begin+f.size-offset)
		n := copy(b[read:], content[begin:end])
		read, offset = read+n, offset+int64(n)
	}
	if read < len(b) {
		return read, io.EOF
	}
	return read, nil
}

// WriteAt implements io.WriterAt.
func (f *file) WriteAt(b []byte, offset int64) (int, error) {
	if offset+int64(len(b)) > sqlcall.MaxFileBytes {
		return 0, sqlite3.FULL
	}
	written := 0
	for written < len(b) {
		number := int(offset / sqlcall.ChunkBytes)
		content, err := f.chunk(number)
		if err != nil {
			return written, err
		}
		n := copy(content[offset%sqlcall.ChunkBytes:], b[written:])
		f.changed[number] = true
		written, offset = written+n, offset+int64(n)
	}
	return written, f.resize(max(f.size, offset))
}

// Truncate implements vfs.File.
func (f *file) Truncate(size int64) error {
	if size >= f.size {
		return nil
	}
	return f.resize(size)
}

// resize changes the size. The parts between the two sizes change with it.
func (f *file) resize(size int64) error {
	low, high := min(f.size, size), max(f.size, size)
	if low == high {
		return nil
	}
	for number := int(low / sqlcall.ChunkBytes); number < sqlcall.Chunks(high); number++ {
		content, err := f.chunk(number)
		if err != nil {
			return err
		}
		f.changed[number] = true
		if from := size - int64(number)*sqlcall.ChunkBytes; from < sqlcall.ChunkBytes {
			clear(content[max(from, 0):])
		}
	}
	f.size = size
	return nil
}

// changes returns the parts that have changed, ascending.
func (f *file) changes() []sqlcall.Chunk {
	var all []sqlcall.Chunk
	for number := range f.changed {
		if size := sqlcall.ChunkSize(f.size, number); size > 0 {
			all = append(all, sqlcall.Chunk{Number: number, Content: f.chunks[number][:size]})
		}
	}
	slices.SortFunc(all, func(a, b sqlcall.Chunk) int { return a.Number - b.Number })
	return all
}

// Close implements io.Closer.
func (*file) Close() error { return nil }

// Sync implements vfs.File.
func (*file) Sync(vfs.SyncFlag) error { return nil }

// Size implements vfs.File.
func (f *file) Size() (int64, error) { return f.size, nil }

// Lock implements vfs.File. No other connection has the file.
func (*file) Lock(vfs.LockLevel) error { return nil }

// Unlock implements vfs.File.
func (*file) Unlock(vfs.LockLevel) error { return nil }

// CheckReservedLock implements vfs.File.
func (*file) CheckReservedLock() (bool, error) { return false, nil }

// SectorSize implements vfs.File.
func (*file) SectorSize() int { return 0 }

// DeviceCharacteristics implements vfs.File.
func (*file) DeviceCharacteristics() vfs.DeviceCharacteristic {
	return vfs.IOCAP_ATOMIC | vfs.IOCAP_SEQUENTIAL | vfs.IOCAP_SAFE_APPEND | vfs.IOCAP_POWERSAFE_OVERWRITE
}
