package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// pageOfFlags is the page about the flags; its table is generated.
const pageOfFlags = "../../docs/flags.md"

var update = flag.Bool("update", false, "write the table of docs/flags.md")

// statedDefault is a default that the sentence about a flag states itself.
var statedDefault = regexp.MustCompile(`\s*Default: (.*)\.$`)

// emptyUnits are the units of a duration behind the last one that counts.
var emptyUnits = regexp.MustCompile(`([hm])(?:0m)?0s$`)

// TestThePageOfFlags compares the table of docs/flags.md with the flags. hack/generate.sh docs writes it.
func TestThePageOfFlags(t *testing.T) {
	text, err := os.ReadFile(pageOfFlags)
	if err != nil {
		t.Fatal(err)
	}
	prose, _, found := strings.Cut(string(text), "| flag |")
	if !found {
		t.Fatal("the page has no table")
	}
	want := prose + tableOfFlags(t)
	if *update && string(text) != want {
		if err := os.WriteFile(pageOfFlags, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(text) != want {
		t.Errorf("docs/flags.md is out of date: run hack/generate.sh docs. It must be\n%s", want)
	}
}

func tableOfFlags(t *testing.T) string {
	t.Helper()
	var table strings.Builder
	table.WriteString("| flag | default | what it does |\n| --- | --- | --- |\n")
	(&options{}).flags().VisitAll(func(f *flag.Flag) {
		usage := strings.Join(strings.Fields(f.Usage), " ")
		initial := readable(f.DefValue)
		if stated := statedDefault.FindStringSubmatch(usage); stated != nil {
			usage, initial = strings.TrimSuffix(usage, stated[0]), stated[1]
		}
		if !strings.HasSuffix(usage, ".") {
			t.Errorf("the text of --%s is not a sentence: %s", f.Name, usage)
		}
		fmt.Fprintf(&table, "| `--%s` | %s | %s |\n", f.Name, initial, strings.ReplaceAll(usage, "|", `\|`))
	})
	return table.String()
}

// readable writes a default so that a person reads its size at once.
func readable(initial string) string {
	if d, err := time.ParseDuration(initial); err == nil && initial != "0" {
		return emptyUnits.ReplaceAllString(d.String(), "$1")
	}
	if n, err := strconv.ParseInt(initial, 10, 64); err == nil && n >= 1<<20 && n%(1<<20) == 0 {
		return fmt.Sprintf("%s (%d MiB)", initial, n>>20)
	}
	return cmp.Or(initial, "none")
}
