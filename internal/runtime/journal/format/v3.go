package format

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// maxPayloadBytes bounds the payload of an entry that is read, before its compression. No writer exceeds it: see
// journal.MaxEntryBytes.
const maxPayloadBytes = 1 << 20

// compressors are kept, because each takes more memory than most payloads.
var compressors = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// pack returns a payload as one string of JSON: compressed with gzip, in base64.
func pack(payload []byte) ([]byte, error) {
	var compressed bytes.Buffer
	compressor := compressors.Get().(*gzip.Writer)
	defer func() {
		compressor.Reset(io.Discard) // keeps no output
		compressors.Put(compressor)
	}()
	compressor.Reset(&compressed)
	_, err := compressor.Write(payload)
	if err = errors.Join(err, compressor.Close()); err != nil {
		return nil, fmt.Errorf("compressing the payload: %w", err)
	}
	return json.Marshal(compressed.Bytes())
}

// unpack returns the payload that such a string holds.
func unpack(text []byte) ([]byte, error) {
	var compressed []byte
	if err := json.Unmarshal(text, &compressed); err != nil {
		return nil, fmt.Errorf("reading the compressed payload: %w", err)
	}
	decompressor, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return nil, fmt.Errorf("decompressing the payload: %w", err)
	}
	payload, err := io.ReadAll(io.LimitReader(decompressor, maxPayloadBytes+1))
	if err != nil {
		return nil, fmt.Errorf("decompressing the payload: %w", err)
	}
	if len(payload) > maxPayloadBytes {
		return nil, fmt.Errorf("the payload takes more than %d bytes when it is decompressed", maxPayloadBytes)
	}
	return payload, nil
}
