package format_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
)

// TestTheDocumentedCommandsDecodePayloads runs the commands of the documents on a compressed payload, as format 3 has
// it, and on one that is not compressed.
func TestTheDocumentedCommandsDecodePayloads(t *testing.T) {
	documents, err := os.ReadFile("../../../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(documents), ".payload.") {
		t.Error("docs/cli.md reads a field of a payload, which is compressed")
	}
	commands := regexp.MustCompile(`echo "\$payload" \| ([^;]+);`).FindAllStringSubmatch(string(documents), -1)
	if len(commands) != 1 {
		t.Fatalf("docs/cli.md decodes payloads %d times, want 1", len(commands))
	}
	content := `{"calls":[` + strings.Repeat(`{"id":"1-0","name":"pay"},`, 100) + `{"id":"2-0"}]}`
	plain := &v1alpha1.JournalEntrySpec{Format: 2, Payload: &v1alpha1.JSON{Raw: []byte(content)}}
	packed, err := format.Pack(plain)
	if err != nil || packed.Format == plain.Format {
		t.Fatalf("format %d, %v", packed.Format, err)
	}
	var compressed string
	if err := json.Unmarshal(packed.Payload.Raw, &compressed); err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal([]byte(content))
	if err != nil {
		t.Fatal(err)
	}
	for name, payload := range map[string]string{"compressed": compressed, "plain": strings.Trim(string(encoded), `"`)} {
		for _, command := range commands {
			script := exec.CommandContext(t.Context(), "sh", "-c", command[1])
			script.Stdin = strings.NewReader(payload + "\n")
			if out, err := script.CombinedOutput(); err != nil || string(out) != content {
				t.Errorf("%s: %s returned %v: %.200s", name, command[1], err, out)
			}
		}
	}
}
