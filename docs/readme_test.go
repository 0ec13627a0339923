package docs_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/cli/command"
)

var (
	shellBlock = regexp.MustCompile("(?s)```sh\n(.*?)```")
	// shellComment is a comment at the end of a line.
	shellComment = regexp.MustCompile(`\s+#.*$`)
	// quotedName is an argument of a command.
	quotedName = regexp.MustCompile(`"[^"]*"|'[^']*'|\S+`)
)

// readmeCommands returns the commands of README's blocks, in order.
func readmeCommands(t *testing.T) []string {
	t.Helper()
	var commands []string
	for _, block := range shellBlock.FindAllStringSubmatch(read(t, filepath.Join(root, "README.md")), -1) {
		for line := range strings.Lines(block[1]) {
			for part := range strings.SplitSeq(shellComment.ReplaceAllString(strings.TrimRight(line, "\n"), ""), " && ") {
				if part != "" {
					commands = append(commands, part)
				}
			}
		}
	}
	return commands
}

// TestTheCommandsOfREADMEExist looks each command up where it is defined: in the Makefile, in the plugin of kubectl, in
// the folder of a program.
func TestTheCommandsOfREADMEExist(t *testing.T) {
	commands := readmeCommands(t)
	if len(commands) < 10 {
		t.Fatalf("README has %d commands: %q", len(commands), commands)
	}
	for _, line := range commands {
		words := quotedName.FindAllString(line, -1)
		for i, word := range words {
			words[i] = strings.Trim(word, `"'`)
		}
		switch {
		case words[0] == "make":
			plan(t, words[1:]...)
		case words[0] == "go" && words[1] == "install":
			path := strings.TrimPrefix(strings.TrimSuffix(words[2], "@latest"), "github.com/capstan-dev/capstan/")
			if _, err := os.Stat(filepath.Join(root, path, "main.go")); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		case words[0] == "kubectl" && words[1] == "capstan":
			if err := parses(words[2:]); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		case words[0] == "kubectl" && slices.Contains([]string{"apply", "wait", "get"}, words[1]):
		default:
			t.Errorf("nothing is known about the command %s", line)
		}
	}
}

// plan returns what make would run. It fails for a target that does not exist or has no description.
func plan(t *testing.T, arguments ...string) string {
	t.Helper()
	target := exec.CommandContext(t.Context(), "make", append([]string{"--dry-run", "--directory", root}, arguments...)...)
	output, err := target.CombinedOutput()
	if err != nil {
		t.Errorf("make %s: %v: %s", strings.Join(arguments, " "), err, output)
	}
	if !strings.Contains(read(t, filepath.Join(root, "Makefile")), "\n"+arguments[0]+": ##") {
		t.Errorf("make does not list %s", arguments[0])
	}
	return string(output)
}

// parses returns an error if the plugin of kubectl does not take the arguments.
func parses(arguments []string) error {
	plugin := command.Root()
	plugin.SetOut(io.Discard)
	plugin.SetErr(io.Discard)
	found, rest, err := plugin.Find(arguments)
	if err != nil {
		return err
	}
	if err := found.ParseFlags(rest); err != nil {
		return err
	}
	return found.ValidateArgs(found.Flags().Args())
}

// TestTheThreeCommandsOfREADME follows a newcomer: a registry, the install that the release writes, a first chat with
// the objects of the same page.
func TestTheThreeCommandsOfREADME(t *testing.T) {
	readme := read(t, filepath.Join(root, "README.md"))
	_, own, found := strings.Cut(readme, "\n## On a cluster of your own\n")
	if !found {
		t.Fatal("README has no section about a cluster of one's own")
	}
	block := shellBlock.FindStringSubmatch(own)
	if block == nil {
		t.Fatal("the section has no commands")
	}
	lines := strings.Split(strings.TrimSpace(block[1]), "\n")
	if len(lines) != 3 {
		t.Fatalf("README needs %d commands to get to a chat: %q", len(lines), lines)
	}
	for i, line := range lines {
		lines[i] = shellComment.ReplaceAllString(line, "")
	}
	release, ok := strings.CutPrefix(lines[0], "make release ")
	registry, given := strings.CutPrefix(release, "REGISTRY=")
	if !ok || !given {
		t.Fatalf("the first command is %s", lines[0])
	}
	out, err := filepath.Abs(filepath.Join(root, "bin", "release"))
	if err != nil {
		t.Fatal(err)
	}
	planned := plan(t, "release", release)
	for _, want := range []string{"go -C hack/release run .", `-registry "` + registry + `"`, `-out "` + out + `"`} {
		if !strings.Contains(planned, want) {
			t.Errorf("make release runs %q, without %s", planned, want)
		}
	}
	if want := "kubectl apply --server-side -f bin/release/install.yaml"; lines[1] != want {
		t.Errorf("the second command is %s, not %s", lines[1], want)
	}
	if want := "kubectl apply -f demo.yaml && kubectl capstan chat demo"; lines[2] != want {
		t.Errorf("the third command is %s, not %s", lines[2], want)
	}
	if !strings.Contains(readme, "kind: Session\nmetadata: {name: demo}\n") {
		t.Error("the page has no Session demo to chat with")
	}
	if !strings.Contains(own, "`go install ./cmd/kubectl-capstan` installs the plugin") {
		t.Error("the section does not have where the plugin comes from")
	}
}

func TestACommandThatDoesNotExistIsFound(t *testing.T) {
	for _, arguments := range [][]string{{"talk", "demo"}, {"chat"}, {"chat", "demo", "--loud"}, {"ask", "--harness"}} {
		if parses(arguments) == nil {
			t.Errorf("kubectl capstan %s is taken for a command", strings.Join(arguments, " "))
		}
	}
	if err := parses([]string{"chat", "demo", "--follow"}); err != nil {
		t.Error(err)
	}
}
