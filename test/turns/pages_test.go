package turns_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/capstan-dev/capstan/test/internal/suite"
)

// pageLimit bounds a spec that runs the commands of a page.
const pageLimit = 4 * time.Minute

// fencedBlock is a block of code of a page, with the words behind its language.
var fencedBlock = regexp.MustCompile("(?s)```([a-z]+)([^\n]*)\n(.*?)```")

var _ = Describe("The commands of a page", func() {
	It("docs/getting-started.md runs from top to bottom", SpecTimeout(pageLimit), func(ctx SpecContext) {
		Expect(newPage(ctx).run(ctx, "getting-started.md")).To(BeNumerically(">", 7))
	})

	It("docs/second-day.md runs from top to bottom", SpecTimeout(pageLimit), func(ctx SpecContext) {
		Expect(newPage(ctx).run(ctx, "second-day.md")).To(BeNumerically(">", 15))
	})
})

// page is a shell in a folder of its own, for the commands of a page.
type page struct {
	folder      string
	environment []string
}

// newPage returns a shell whose kubectl, with its plugin, speaks to the API server of the suite.
func newPage(ctx context.Context) *page {
	GinkgoHelper()
	p := &page{folder: GinkgoT().TempDir()}
	programs := GinkgoT().TempDir()
	build := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(programs, "kubectl-capstan"),
		"./cmd/kubectl-capstan")
	build.Dir = root
	built, err := build.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(built))
	kubeconfig, err := os.ReadFile(server.Kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	own := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(os.WriteFile(own, kubeconfig, 0o600)).To(Succeed())
	repository, err := filepath.Abs(root)
	Expect(err).NotTo(HaveOccurred())
	path := []string{filepath.Dir(suite.KubectlPath()), programs, os.Getenv("PATH")}
	p.environment = append(os.Environ(), "KUBECONFIG="+own, "CAPSTAN="+repository,
		"PATH="+strings.Join(path, string(os.PathListSeparator)))
	return p
}

// run carries out a page: it writes the files that the page shows, runs its commands in order, and compares what they
// print with the text below them. It returns the number of blocks of commands. A block with the word "fails" must fail.
func (p *page) run(ctx context.Context, name string) int {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(root, "docs", name))
	Expect(err).NotTo(HaveOccurred())
	var output string
	ran := 0
	for _, block := range fencedBlock.FindAllStringSubmatch(string(text), -1) {
		language, word, content := block[1], strings.TrimSpace(block[2]), block[3]
		switch language {
		case "yaml":
			Expect(word).NotTo(BeEmpty(), "a manifest of the page needs the name of its file:\n"+content)
			path := filepath.Join(p.folder, word)
			Expect(os.MkdirAll(filepath.Dir(path), 0o750)).To(Succeed())
			Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
		case "sh":
			By(content)
			output, err = p.shell(ctx, content)
			if word == "fails" {
				Expect(err).To(HaveOccurred(), content+output)
			} else {
				Expect(err).NotTo(HaveOccurred(), content+output)
			}
			ran++
		case "text":
			Expect(output).To(MatchRegexp(pattern(content)))
		}
	}
	return ran
}

func (p *page) shell(ctx context.Context, script string) (string, error) {
	command := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	command.Dir, command.Env = p.folder, p.environment
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	if err := command.Run(); err != nil {
		return output.String(), fmt.Errorf("running the commands: %w", err)
	}
	return output.String(), nil
}

// pattern returns the expression for the end of an output as a page shows it: "..." stands for any text, and a space
// for any number of spaces.
func pattern(shown string) string {
	var all strings.Builder
	for i, part := range strings.Split(strings.TrimSpace(shown), "...") {
		if i > 0 {
			all.WriteString(`(?s:.*)`)
		}
		var words []string
		for _, word := range regexp.MustCompile(`\s+`).Split(part, -1) {
			words = append(words, regexp.QuoteMeta(word))
		}
		all.WriteString(strings.Join(words, `\s+`))
	}
	return `(?:^|\n)` + all.String() + `\s*$`
}
