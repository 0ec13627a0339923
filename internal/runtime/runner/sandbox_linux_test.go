package runner

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// confined is the argument with which this test is a process that tries what the kernel must refuse.
const confined = "try-while-confined"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == confined {
		if err := json.NewEncoder(os.Stdout).Encode(attempts()); err != nil {
			os.Exit(3)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// attempts returns what has become of each attempt.
func attempts() map[string]string {
	if err := confine(); err != nil {
		return map[string]string{"confine": err.Error()}
	}
	results := map[string]string{}
	try := func(name string, attempt func() error) { results[name] = fmt.Sprint(attempt()) }
	try("read a file", func() error { _, err := os.ReadFile("/etc/hostname"); return err })
	try("create a file", func() error { return os.WriteFile("/tmp/capstan-escape", nil, 0o600) })
	try("find a file", func() error { _, err := os.Stat("/etc/hostname"); return err })
	try("list a directory", func() error { _, err := os.ReadDir("/"); return err })
	try("resolve a link", func() error { _, err := filepath.EvalSymlinks("/proc/self/exe"); return err })
	try("make a pipe with a name", func() error { return unix.Mkfifo("/tmp/capstan-escape", 0o600) })
	try("delete a file", func() error { return os.Remove("/etc/hostname") })
	try("execute", func() error { return exec.Command("/bin/true").Run() })
	try("become another program", func() error { return syscall.Exec("/bin/true", []string{"true"}, nil) })
	try("fork", func() error {
		if _, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0); errno != 0 {
			return errno
		}
		return nil
	})
	try("fork with clone3", func() error {
		if _, _, errno := unix.RawSyscall(unix.SYS_CLONE3, 0, 0, 0); errno != 0 {
			return errno
		}
		return nil
	})
	try("connect", func() error { _, err := net.Dial("tcp", "127.0.0.1:1"); return err })
	try("listen", func() error { _, err := net.Listen("tcp", "127.0.0.1:0"); return err })
	try("make a socket", func() error { _, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0); return err })
	try("signal", func() error { return unix.Kill(os.Getppid(), 0) })
	try("signal a thread", func() error { return unix.Tgkill(os.Getppid(), os.Getppid(), 0) })
	for name, command := range map[string]int{
		"have another process signalled": unix.F_SETOWN, "enlarge a pipe": unix.F_SETPIPE_SZ, "lease a file": unix.F_SETLEASE,
		"watch a directory": unix.F_NOTIFY, "lock a file": unix.F_SETLK, "seal a file": unix.F_ADD_SEALS,
		"duplicate a descriptor": unix.F_DUPFD, "choose a signal": unix.F_SETSIG,
	} {
		try(name, func() error { _, err := unix.FcntlInt(1, command, os.Getppid()); return err })
	}
	try("find the processors of another", func() error {
		var set unix.CPUSet
		return unix.SchedGetaffinity(os.Getppid(), &set)
	})
	try("trace", func() error { return unix.PtraceAttach(os.Getppid()) })
	try("raise a limit", func() error {
		return unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: 1 << 40, Max: 1 << 40})
	})
	try("change the user", func() error { return unix.Setresuid(0, 0, 0) })
	try("read the memory of another", func() error {
		_, err := unix.ProcessVMReadv(os.Getppid(), nil, nil, 0)
		return err
	})
	try("make a namespace", func() error { return unix.Unshare(unix.CLONE_NEWUSER) })
	try("mount", func() error { return unix.Mount("", "/", "", 0, "") })
	try("make an io_uring", func() error {
		if _, _, errno := unix.RawSyscall(unix.SYS_IO_URING_SETUP, 1, 0, 0); errno != 0 {
			return errno
		}
		return nil
	})
	// The runtime of Go needs this.
	try("itself: signal a thread", func() error { return unix.Tgkill(os.Getpid(), unix.Gettid(), 0) })
	try("itself: read the flags of a file", func() error { _, err := unix.FcntlInt(1, unix.F_GETFL, 0); return err })
	try("itself: be preempted", func() error {
		var done atomic.Bool
		go func() { runtime.GC(); done.Store(true) }()
		// The garbage collector interrupts such a loop by a signal.
		turns := 0
		for !done.Load() {
			turns++
		}
		_ = turns
		return nil
	})
	try("itself: start threads", func() error { startThreads(6); return nil })
	page := make([]byte, 2*os.Getpagesize())
	aligned := page[os.Getpagesize()-int(uintptr(unsafe.Pointer(&page[0]))%uintptr(os.Getpagesize())):]
	try("make memory executable", func() error {
		return unix.Mprotect(aligned[:os.Getpagesize()], unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC)
	})
	try("get executable memory", func() error {
		_, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_EXEC, unix.MAP_ANON|unix.MAP_PRIVATE)
		return err
	})
	try("find a user", func() error { _, err := user.Lookup("root"); return err })
	return results
}

// What the interpreter or a library does is no way out either: the kernel refuses it.
func TestAConfinedProcessHasNothing(t *testing.T) {
	command := exec.Command("/proc/self/exe", confined)
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	var results map[string]string
	if err := json.Unmarshal(out, &results); err != nil {
		t.Fatal(err)
	}
	if len(results) < 20 {
		t.Fatalf("it tried only %d things: %v", len(results), results)
	}
	for attempt, err := range results {
		t.Logf("%s: %s", attempt, err)
		switch {
		case attempt == "fork with clone3":
		case strings.HasPrefix(attempt, "itself: "):
			if err != "<nil>" {
				t.Errorf("%s: %s", attempt, err)
			}
		case !strings.Contains(err, "operation not permitted"):
			t.Errorf("%s: %s", attempt, err)
		}
	}
	if results["fork with clone3"] != unix.ENOSYS.Error() {
		t.Errorf("clone3: %s", results["fork with clone3"])
	}
}
