package record

import (
	"bytes"
	"errors"
	"runtime"
	"testing"
)

// What a few KiB decompress to is not read beyond its bound.
func TestABombIsNotDecompressed(t *testing.T) {
	bomb, err := pack(bytes.Repeat([]byte{0}, 64<<20))
	if err != nil {
		t.Fatal(err)
	}
	if len(bomb) > MaxPayloadBytes {
		t.Fatalf("the bomb has %d bytes", len(bomb))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = unpack(bomb, maxIndexBytes)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, ErrFormat) {
		t.Errorf("decompressing a bomb: %v", err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20 {
		t.Errorf("decompressing a bomb takes %d bytes", used)
	}
	if _, err := unpack(make([]byte, MaxPayloadBytes+1), maxIndexBytes); !errors.Is(err, ErrFormat) {
		t.Errorf("decompressing too many bytes: %v", err)
	}
}
