package memory

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"
)

// size is what the subjects of this test take.
const size = 64 << 20

// holder is the argument with which this test is a process that takes memory until its input ends.
const holder = "hold-memory"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == holder {
		taken := bytes.Repeat([]byte{1}, size)
		_, _ = os.Stdout.Write(taken[:1])
		_, _ = io.Copy(io.Discard, os.Stdin)
		_, _ = os.Stdout.Write(taken[size-1:])
		return
	}
	os.Exit(m.Run())
}

// grow takes memory for some samples, and drops it.
func grow() byte {
	taken := bytes.Repeat([]byte{1}, size)
	for begin := time.Now(); time.Since(begin) < 20*interval; {
		taken[0]++
	}
	return taken[size/2]
}

func TestThePeakOfTheHeapIsSeen(t *testing.T) {
	u := Peak(func() { grow() })
	if u.Heap < size || u.Heap > 2*size {
		t.Errorf("the peak is %d MiB", u.Heap>>20)
	}
	if u := Peak(func() {}); u.Heap > size/4 {
		t.Errorf("without any work the peak is %d MiB", u.Heap>>20)
	}
}

func TestTheMemoryOfAnotherProcessIsSeen(t *testing.T) {
	child := exec.Command("/proc/self/exe", holder)
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadByte(); err != nil {
		t.Fatal(err)
	}
	if u := Peak(func() {}); u.Children < size || u.Children > 2*size {
		t.Errorf("the other process has %d MiB", u.Children>>20)
	}
	in.Close()
	_ = child.Wait()
	if all := Children(); len(all) > 0 {
		t.Errorf("the processes %v remain", all)
	}
}
