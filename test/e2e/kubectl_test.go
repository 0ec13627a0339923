//go:build e2e

package e2e_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// wideSpace is the space between two of kubectl's columns, whose names may have a space in them.
var wideSpace = regexp.MustCompile(`\s{2,}`)

// kubectl runs kubectl and returns its output.
func kubectl(ctx context.Context, arguments ...string) string {
	GinkgoHelper()
	return kubectlWith(ctx, "", arguments...)
}

// apply applies a manifest with one call of kubectl.
func apply(ctx context.Context, namespace, manifest string) string {
	GinkgoHelper()
	return kubectlWith(ctx, manifest, "apply", "--namespace", namespace, "--filename", "-")
}

func kubectlWith(ctx context.Context, input string, arguments ...string) string {
	GinkgoHelper()
	command := exec.CommandContext(
		ctx,
		cmp.Or(os.Getenv(envKubectl), "kubectl"),
		append([]string{"--request-timeout=60s"}, arguments...)...)
	command.Stdin = strings.NewReader(input)
	var out, errors bytes.Buffer
	command.Stdout, command.Stderr = &out, &errors
	err := command.Run()
	Expect(
		err,
	).NotTo(HaveOccurred(), fmt.Sprintf("kubectl %s\n%s%s", strings.Join(arguments, " "), out.String(), errors.String()))
	return out.String()
}

// columns are the words in the first line of a table.
func columns(table string) []string {
	header, _, _ := strings.Cut(table, "\n")
	return wideSpace.Split(strings.TrimSpace(header), -1)
}

// show adds a text to the report, also if the spec fails.
func show(what string, text any) {
	AddReportEntry(what, ReportEntryVisibilityAlways, text)
}
