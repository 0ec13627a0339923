package runner

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// heapBytes is the memory from which on the garbage collector works hard, dataBytes that which the process may have
	// at all, beyond what it has at its start, and stackBytes that of one stack.
	heapBytes  = 24 << 20
	dataBytes  = 32 << 20
	stackBytes = 8 << 20
	// addressBytes is the address space beyond that at its start: a new arena of the Go heap takes 64 MiB of it.
	addressBytes = 192 << 20
	// maxFiles is how many descriptors it may have: pipes between commands.
	maxFiles = 64
	// cpuSeconds is the processor time.
	cpuSeconds = 31
	// niceness keeps it from slowing the manager down.
	niceness = 10
)

// confine takes everything from this process that a program does not need: files, other processes, the network, and
// more memory than it may use. It cannot be undone, and holds whatever the program does. Without it none runs.
func confine() error {
	// A process that grows beyond its limits ends; without this, the kernel would look for another victim first.
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0o600); err != nil {
		return fmt.Errorf("setting the score of the process: %w", err)
	}
	startThreads(libraryThreads)
	used, err := usedMemory()
	if err != nil {
		return err
	}
	debug.SetMemoryLimit(heapBytes)
	debug.SetMaxStack(stackBytes)
	runtime.GOMAXPROCS(2)
	for resource, limit := range map[int]uint64{
		unix.RLIMIT_DATA: used.data + dataBytes, unix.RLIMIT_AS: used.address + addressBytes,
		unix.RLIMIT_NOFILE: maxFiles, unix.RLIMIT_CPU: cpuSeconds, unix.RLIMIT_CORE: 0, unix.RLIMIT_FSIZE: 0,
		unix.RLIMIT_MSGQUEUE: 0, unix.RLIMIT_MEMLOCK: 0,
	} {
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
			return fmt.Errorf("limiting resource %d: %w", resource, err)
		}
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, niceness); err != nil {
		return fmt.Errorf("lowering the priority: %w", err)
	}
	return filter()
}

// startThreads starts threads, which the runtime keeps and uses when it needs further ones.
func startThreads(count int) {
	var running, ended sync.WaitGroup
	running.Add(count)
	for range count {
		ended.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			running.Done()
			running.Wait()
		})
	}
	ended.Wait()
}

type memory struct{ address, data uint64 }

// usedMemory is the memory of the process so far.
func usedMemory() (memory, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return memory{}, fmt.Errorf("reading the memory of the process: %w", err)
	}
	var m memory
	for line := range strings.SplitSeq(string(status), "\n") {
		name, value, _ := strings.Cut(line, ":")
		kibibytes, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(value, "kB")), 10, 54)
		switch {
		case err != nil:
		case name == "VmSize":
			m.address = kibibytes << 10
		case name == "VmData":
			m.data = kibibytes << 10
		}
	}
	if m.address == 0 || m.data == 0 {
		return m, errors.New("the memory of the process is unknown")
	}
	return m, nil
}

// allowed are the system calls that the Go runtime needs while it runs. Nothing in it opens, names or finds anything.
var allowed = []uint32{
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_CLOSE, unix.SYS_FSTAT, unix.SYS_PIPE2,
	unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EVENTFD2,
	unix.SYS_MUNMAP, unix.SYS_MADVISE, unix.SYS_MINCORE, unix.SYS_BRK,
	unix.SYS_FUTEX, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_SCHED_YIELD,
	unix.SYS_GETTIMEOFDAY,
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK,
	unix.SYS_RESTART_SYSCALL, unix.SYS_SETITIMER, unix.SYS_TIMER_CREATE, unix.SYS_TIMER_SETTIME, unix.SYS_TIMER_DELETE,
	unix.SYS_GETPID, unix.SYS_GETPPID, unix.SYS_GETTID, unix.SYS_GETUID, unix.SYS_GETEUID, unix.SYS_GETGID,
	unix.SYS_GETEGID, unix.SYS_GETRANDOM, unix.SYS_GETRUSAGE, unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ,
	unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
}

// The fields of what a filter sees, as offsets.
const (
	offsetNumber = 0
	offsetArch   = 4
	// offsetFirst and offsetSecond are the lower halves of the first two arguments, on machines with the lower byte
	// first. The kernel looks at no more of a number of a process or of a command.
	offsetFirst  = 16
	offsetSecond = 24
	offsetThird  = 32
)

// restricted permits a system call with some values of an argument alone. The rest of the program follows for others.
func restricted(number, offset uint32, values ...uint32) []unix.SockFilter {
	length := uint8(len(values)) //nolint:gosec // There are few.
	part := []unix.SockFilter{
		jump(unix.BPF_JEQ, number, 0, length+3),
		statement(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offset),
	}
	for i, value := range values {
		part = append(part, jump(unix.BPF_JEQ, value, length-uint8(i), 0)) //nolint:gosec // There are few.
	}
	return append(part,
		statement(unix.BPF_RET|unix.BPF_K, refuse), statement(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW))
}

// refuse lets a system call fail, so that the interpreter reports what it could not do.
const refuse = uint32(unix.SECCOMP_RET_ERRNO | unix.EPERM)

// filter permits the allowed system calls alone, for all threads. A new thread is not a new process. The runtime
// interrupts its own threads by signals; it must not signal those of the manager.
func filter() error {
	arch, ok := map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]
	if !ok {
		return fmt.Errorf("system calls cannot be filtered on %s", runtime.GOARCH)
	}
	program := []unix.SockFilter{
		statement(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offsetArch),
		jump(unix.BPF_JEQ, arch, 1, 0),
		statement(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_KILL_PROCESS),
		statement(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offsetNumber),
		// The runtime makes threads with clone where there is no clone3.
		jump(unix.BPF_JEQ, unix.SYS_CLONE3, 0, 1),
		statement(unix.BPF_RET|unix.BPF_K, uint32(unix.SECCOMP_RET_ERRNO|unix.ENOSYS)),
		jump(unix.BPF_JEQ, unix.SYS_CLONE, 0, 4),
		statement(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offsetFirst),
		jump(unix.BPF_JSET, unix.CLONE_THREAD, 1, 0),
		statement(unix.BPF_RET|unix.BPF_K, refuse),
		statement(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW),
	}
	program = append(program, restricted(unix.SYS_TGKILL, offsetFirst, uint32(os.Getpid()))...) //nolint:gosec // Positive.
	program = append(program, restricted(unix.SYS_SCHED_GETAFFINITY, offsetFirst, 0)...)
	program = append(program, restricted(unix.SYS_FCNTL, offsetSecond,
		unix.F_GETFL, unix.F_SETFL, unix.F_GETFD, unix.F_SETFD)...)
	// The memory of the SQL engine grows by mprotect, and the C library makes a stack by it. Nothing becomes executable.
	for _, number := range []uint32{unix.SYS_MMAP, unix.SYS_MPROTECT} {
		program = append(program, restricted(number, offsetThird,
			unix.PROT_NONE, unix.PROT_READ, unix.PROT_READ|unix.PROT_WRITE)...)
	}
	for _, number := range allowed {
		program = append(program, jump(unix.BPF_JEQ, number, 0, 1),
			statement(unix.BPF_RET|unix.BPF_K, unix.SECCOMP_RET_ALLOW))
	}
	program = append(program, statement(unix.BPF_RET|unix.BPF_K, refuse))
	if len(program) > math.MaxUint16 {
		return errors.New("the filter of system calls is too long")
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("giving up privileges: %w", err)
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	//nolint:gosec // The kernel takes the address of the program.
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&filter)))
	if errno != 0 {
		return fmt.Errorf("filtering system calls: %w", errno)
	}
	return nil
}

func statement(code uint16, k uint32) unix.SockFilter {
	return unix.SockFilter{Code: code, K: k}
}

func jump(test uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, Jt: yes, Jf: no, K: k}
}
