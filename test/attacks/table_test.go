package attacks_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/hook/bash/shell"
	"github.com/capstan-dev/capstan/internal/runtime/runner"
	"github.com/capstan-dev/capstan/internal/runtime/sessiondb/sqlite"
	"github.com/capstan-dev/capstan/internal/testing/memory"
)

// The bounds of an attempt, unless its class has others.
const (
	// most is the most memory that the manager may take, beyond what it had before.
	most = 32 << 20
	// mostRunner is the most memory of a process for scripts: what docs/operations.md counts for each.
	mostRunner = 64 << 20
	// longest is how long it may take.
	longest = 10 * time.Second
	// patience is how long another tenant waits for the same thing meanwhile.
	patience = 8 * time.Second
)

const (
	// perClass is how many attempts a class may have, and atLeast how many there are.
	perClass, atLeast = 5, 80
	// document has the table.
	document = "../../docs/attacks.md"
	// argument is the argument with which this test is a process for programs of tenants.
	argument = "run-one-program"
	// attacker is the namespace of the attempts, and bystander that of the other tenant.
	attacker, bystander = "attacker", "bystander"
)

// hidden are texts that no attempt may get to see.
var hidden = []string{hostSecret, "root:", "uid=", tokenSecret, internalPage, success}

const (
	hostSecret   = "the secret of the host"
	tokenSecret  = "s3cret-t0ken-value"
	internalPage = "the page of an internal server"
	// success is what is seen of an attempt that has reached what it was after.
	success = "the attempt has succeeded"
)

// refused is the beginning of what is seen of an attempt that has failed.
const refused = "refused: "

// subject is a part of the manager that is attacked.
type subject struct {
	name    string
	classes []class
	// other is what another tenant does with it; it must work during each attempt, and after it.
	other func(ctx context.Context) error
	// runs reports whether a process for scripts does the work.
	runs bool
	// after checks what no attempt may have done.
	after func(t *testing.T)
}

// class is attempts of one kind.
type class struct {
	name string
	// refused reports whether every attempt must be refused. Otherwise it must be harmless: it ends within the bounds,
	// and sees nothing of hidden.
	refused bool
	// most replaces the bound of the manager's memory, and longest that of the time; 0 for the usual one.
	most     int64
	longest  time.Duration
	attempts []attempt
}

// attempt is one row.
type attempt struct {
	name string
	// run makes the attempt and returns what its author, or the model, gets to see. It begins with refused if it failed.
	run func(ctx context.Context) string
	// want is a part of what is seen; empty for anything.
	want string
}

// row is a row of the table, with what was measured.
type row struct {
	subject, class, attempt, ends string
	manager, runner               int64
	took                          time.Duration
	runs                          bool
}

var write = flag.Bool("write", false, "write the table into docs/attacks.md")

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == argument {
		os.Exit(runner.Main(os.Stdin, os.Stdout, shell.Program, sqlite.Program))
	}
	// Memory is collected early, so that the peak is what is in use and not what happens to wait for the collector.
	debug.SetGCPercent(5)
	os.Exit(m.Run())
}

// TestAttacks makes all attempts.
// Rules: HOOK-13.
func TestAttacks(t *testing.T) {
	subjects := []subject{
		bashHooks(t), celHooks(t), webhooks(t), matchers(t), schemas(t), pages(t), bombs(t), mcpServers(t), files(t),
		fences(t), jobFiles(t), launcher(t), jobConnections(), services(t), destinations(t), probes(t),
		requests(t), values(t), registries(t), memories(t), sessionImages(t), sessionSecrets(t), platformTools(t),
		queries(t), userConnections(t), payments(t), budgets(t), schedules(t),
	}
	var all []row
	for _, s := range subjects {
		t.Run(s.name, func(t *testing.T) { all = append(all, s.attack(t)...) })
	}
	if t.Failed() {
		return
	}
	want, total := listed(subjects), 0
	for _, rows := range want {
		total += len(rows)
	}
	if total < atLeast {
		t.Errorf("there are %d attempts, want at least %d", total, atLeast)
	}
	t.Logf("\n%s", table(all))
	if *write && len(all) == total {
		if err := os.WriteFile(document, []byte(page(all, len(subjects))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	checkDocument(t, want)
}

// attack makes the attempts on a subject.
func (s subject) attack(t *testing.T) []row {
	var all []row
	for _, c := range s.classes {
		if len(c.attempts) > perClass {
			t.Errorf("the class %s has %d attempts, want at most %d", c.name, len(c.attempts), perClass)
		}
		for _, a := range c.attempts {
			t.Run(c.name+"/"+cell(a.name), func(t *testing.T) { all = append(all, s.try(t, c, a)) })
		}
	}
	if s.after != nil {
		s.after(t)
	}
	return all
}

// try makes one attempt while another tenant does the same thing.
func (s subject) try(t *testing.T, c class, a attempt) row {
	var seen string
	during := make(chan error, 1)
	begin := time.Now()
	var took time.Duration
	usage := memory.Peak(func() {
		go func() { during <- s.another(t.Context()) }()
		seen = a.run(t.Context())
		took = time.Since(begin)
		if err := <-during; err != nil {
			t.Errorf("meanwhile another tenant gets %v", err)
		}
	})
	if err := s.another(t.Context()); err != nil {
		t.Errorf("afterwards another tenant gets %v", err)
	}
	t.Logf("%v, manager %d KiB, runner %d KiB: %.400q", took.Round(time.Millisecond), usage.Heap>>10,
		usage.Children>>10, seen)
	for _, text := range hidden {
		if strings.Contains(seen, text) {
			t.Errorf("it sees %q: %.400q", text, seen)
		}
	}
	if c.refused && !strings.HasPrefix(seen, refused) {
		t.Errorf("it is not refused: %.400q", seen)
	}
	if !strings.Contains(seen, a.want) {
		t.Errorf("it ends with %.400q, want %q", seen, a.want)
	}
	if limit := orElse(c.longest, longest); took > limit {
		t.Errorf("it takes %v, at most %v is allowed", took, limit)
	}
	if limit := orElse(c.most, most); usage.Heap > limit {
		t.Errorf("the manager takes %d MiB, at most %d are allowed", usage.Heap>>20, limit>>20)
	}
	if s.runs && usage.Children > mostRunner {
		t.Errorf("the process of the script takes %d MiB, at most %d are allowed", usage.Children>>20, mostRunner>>20)
	}
	ends := "harmless"
	if strings.HasPrefix(seen, refused) {
		ends = "refused"
	}
	return row{
		subject: s.name, class: c.name, attempt: a.name, ends: ends, manager: usage.Heap, runner: usage.Children,
		took: took, runs: s.runs,
	}
}

func (s subject) another(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return s.other(ctx)
}

func orElse[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}

// shown is what is seen of an attempt with a text or an error.
func shown(text string, err error) string {
	if err != nil {
		return refused + err.Error()
	}
	return text
}

// must ends the test if the set-up of a subject fails.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(fmt.Errorf("preparing the attempts: %w", err))
	}
}
