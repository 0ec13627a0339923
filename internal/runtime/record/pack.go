package record

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"sync"
)

// MaxPayloadBytes is the maximum size of an index or a blob as it is stored: a value that cannot be compressed becomes
// a little larger.
const MaxPayloadBytes = MaxValueBytes + 1<<10

// compressors are kept, because each takes more memory than most payloads.
var compressors = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// pack compresses an index or a value.
func pack(plain []byte) ([]byte, error) {
	var packed bytes.Buffer
	compressor := compressors.Get().(*gzip.Writer)
	defer func() {
		compressor.Reset(io.Discard) // keeps no output
		compressors.Put(compressor)
	}()
	compressor.Reset(&packed)
	_, err := compressor.Write(plain)
	if err = errors.Join(err, compressor.Close()); err != nil {
		return nil, fmt.Errorf("compressing a record: %w", err)
	}
	return packed.Bytes(), nil
}

// unpack reverses pack. A result of more than the given bytes is an error.
func unpack(packed []byte, most int64) ([]byte, error) {
	if len(packed) > MaxPayloadBytes {
		return nil, fmt.Errorf("%w (it has %d bytes; the maximum is %d)", ErrFormat, len(packed), MaxPayloadBytes)
	}
	decompressor, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("%w (decompressing it: %w)", ErrFormat, err)
	}
	plain, err := io.ReadAll(io.LimitReader(decompressor, most+1))
	if err != nil {
		return nil, fmt.Errorf("%w (decompressing it: %w)", ErrFormat, err)
	}
	if int64(len(plain)) > most {
		return nil, fmt.Errorf("%w (it has more than %d bytes)", ErrFormat, most)
	}
	return plain, nil
}
