package feed

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

const (
	// callOutputBytes bounds the encoded output that is kept of one call, and outputBytes that of all calls of a Session.
	callOutputBytes, outputBytes = 8 << 10, 16 << 10
	// pieceOverhead is the memory of a piece beside its frame.
	pieceOverhead = 128
)

// Outputs has the output of running tool calls. Its methods return at once.
type Outputs interface {
	// Follow passes on the output of the calls of a Session until the returned function is called. A piece may come
	// shortly after that.
	Follow(s journal.Session, receive func(Output)) (end func())
	// Turn takes note of the status of a Turn of a Session that is followed. One that was deleted has no status.
	Turn(session types.UID, turn *v1alpha1.Turn)
}

// Output is a piece of output of a running tool call.
type Output struct {
	// Turn and Step that the call belongs to.
	Turn stream.Turn
	Step int32
	// Context of the events of the call.
	Context map[string]string
	// Data of the event.
	Data stream.ToolOutputDelta
}

// piece is an Output that is kept for subscribers.
type piece struct {
	version int64
	turn    types.UID
	step    int32
	call    string
	frame   Frame
}

func (p piece) bytes() int { return len(p.frame.Bytes) + pieceOverhead }

// outputs are the newest pieces of output of a Session, in order. Another attempt of a call replaces nothing: a client
// distinguishes them.
type outputs struct {
	version int64
	all     []piece
	// turn and step are those that have closed last, before the entry at the ordinal next: a piece that is late does not
	// come after the result.
	turn types.UID
	step int32
	next int64
}

// add keeps a piece, and drops the oldest ones beyond the bounds. It reports whether the piece is of use.
func (o *outputs) add(out Output, frame Frame) bool {
	if out.Turn.UID == o.turn && out.Step <= o.step {
		return false
	}
	o.version++
	one := piece{o.version, out.Turn.UID, out.Step, out.Data.ToolCallID, frame}
	o.all = append(o.all, one)
	o.trim(callOutputBytes, func(p piece) bool { return p.turn == one.turn && p.call == one.call })
	o.trim(outputBytes, func(piece) bool { return true })
	return true
}

// trim drops the oldest pieces of some calls beyond a bound, but not the newest piece of all.
func (o *outputs) trim(limit int, of func(piece) bool) {
	newest, sum := len(o.all)-1, 0
	for at := newest; at >= 0; at-- {
		if !of(o.all[at]) {
			continue
		}
		if sum += o.all[at].bytes(); sum > limit && at < newest {
			o.all = slices.Delete(o.all, at, at+1)
			newest--
		}
	}
}

// after returns the first piece that is newer than a version.
func (o *outputs) after(version int64) (piece, bool) {
	for _, p := range o.all {
		if p.version > version {
			return p, true
		}
	}
	return piece{}, false
}

// close drops the output of a step that has closed. One who reads an older step changes nothing for the newer ones.
func (o *outputs) close(read *batch) {
	if read.next.Ordinal > o.next {
		o.turn, o.step, o.next = read.turn, read.step, read.next.Ordinal
	}
	o.drop(func(p piece) bool { return p.turn == read.turn && p.step <= read.step })
}

func (o *outputs) drop(which func(piece) bool) { o.all = slices.DeleteFunc(o.all, which) }
