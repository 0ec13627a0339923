package journal

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
)

func TestWhereCheckpointsMayBegin(t *testing.T) {
	for ordinal, want := range map[int64][]int64{
		64:        {1},
		128:       {1, 65},
		192:       {129},
		256:       {1, 129, 193},
		64 * 12:   {64*8 + 1, 64*10 + 1, 64*11 + 1},
		64 * 1023: {64*1022 + 1},
	} {
		if got := starts(ordinal); !reflect.DeepEqual(got, want) {
			t.Errorf("the checkpoint at %d may begin at %v, not %v", ordinal, got, want)
		}
	}
}

func TestEveryReaderNeedsOneCheckpointForEachBit(t *testing.T) {
	for blocks := int64(1); blocks < 3000; blocks++ {
		bits, covered := 0, blocks
		for covered > 0 {
			covered = (starts(covered * CheckpointInterval)[0] - 1) / CheckpointInterval
			bits++
		}
		want := 0
		for n := blocks; n > 0; n &= n - 1 {
			want++
		}
		if bits != want {
			t.Fatalf("%d blocks need %d checkpoints, not %d", blocks, bits, want)
		}
	}
}

// Rules: IMG-03. A checkpoint whose messages name stored images is marked with a field that a build before them does
// not know.
func TestCheckpointsWithStoredImagesAreMarked(t *testing.T) {
	image := event.Part{Type: event.PartImage, MediaType: "image/png", ImageID: "img-0", ImageBytes: 1}
	for name, marked := range map[string]bool{"an image": true, "a text": false} {
		st := newState()
		m := event.Message{ID: "a", Role: event.RoleUser, Content: []event.Part{event.Text("x")}}
		if marked {
			m.Content = append(m.Content, image)
		}
		st.add(1, 63, change{messages: []event.Message{m}})
		e, err := checkpoint(Session{Name: "s"}, st, 64, metav1.MicroTime{})
		if err != nil {
			t.Fatal(err)
		}
		spec, err := format.Plain(e.spec)
		if err != nil {
			t.Fatal(err)
		}
		if got := bytes.Contains(spec.Payload.Raw, []byte(`"images":true`)); got != marked {
			t.Errorf("%s: the checkpoint is %s", name, spec.Payload.Raw)
		}
		read, err := format.Decode(spec)
		if err != nil || read.Checkpoint.Images != marked {
			t.Errorf("%s: read %+v, %v", name, read, err)
		}
	}
}

func TestTranscriptsComeBackAsTheyWere(t *testing.T) {
	messages := []event.Message{
		{ID: "a", Role: event.RoleUser, Content: []event.Part{event.Text("x")}, Metadata: map[string]any{"n": 1.5}},
		{ID: "b", Role: event.RoleToolResult, ToolCallID: "1-0", Error: "e"},
		{ID: "c", Role: event.RoleToolResult, ToolCallID: "1-1", Content: []event.Part{}},
	}
	compressed, err := compress(messages, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	got, err := decompress(compressed)
	if err != nil || !reflect.DeepEqual(got, messages) {
		t.Errorf("got %+v, %v", got, err)
	}
	if again, err := compress(messages, int64(len(compressed))); err != nil || !reflect.DeepEqual(again, compressed) {
		t.Errorf("compressed again with just enough room: %v", err)
	}
	if _, err := compress(messages, int64(len(compressed))-1); !errors.Is(err, errNoRoom) {
		t.Errorf("with one byte less: %v", err)
	}
	for cut := range compressed {
		if _, err := decompress(compressed[:cut]); err == nil && cut > 0 {
			t.Fatalf("a transcript cut at %d of %d bytes was read", cut, len(compressed))
		}
	}
	if none, err := compress(nil, 0); none != nil || err != nil {
		t.Errorf("no messages are %v, %v", none, err)
	}
}
