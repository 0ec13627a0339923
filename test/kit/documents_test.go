package kit_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/capstan-dev/capstan/capstantest"
)

// root is the repository, as seen from this folder.
const root = "../.."

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// faults are all that there are.
var faults = []capstantest.Fault{
	capstantest.JobRefused,
	capstantest.JobSuspended,
	capstantest.PodRefused,
	capstantest.Unschedulable,
	capstantest.PodDeletedBeforeStart,
	capstantest.ImagePullBackOff,
	capstantest.NeverStarts,
	capstantest.StartError,
	capstantest.Hangs,
	capstantest.TimedOut,
	capstantest.OOMKilled,
	capstantest.OutputLost,
	capstantest.Killed,
	capstantest.PodDeleted,
	capstantest.Evicted,
	capstantest.NodeLost,
	capstantest.NodeSilent,
	capstantest.JobDeleted,
}

var _ = Describe("The page about testing agents", func() {
	page := func() string {
		GinkgoHelper()
		text, err := os.ReadFile(filepath.Join(root, "docs", "testing-your-agents.md"))
		Expect(err).NotTo(HaveOccurred())
		return string(text)
	}

	It("shows parts of the example, which is tested", func() {
		files, err := filepath.Glob(filepath.Join(root, "examples", "testing", "*.go"))
		Expect(err).NotTo(HaveOccurred())
		var example strings.Builder
		for _, file := range files {
			text, err := os.ReadFile(file)
			Expect(err).NotTo(HaveOccurred())
			example.Write(text)
		}
		blocks := goBlock.FindAllStringSubmatch(page(), -1)
		Expect(len(blocks)).To(BeNumerically(">=", 5))
		for _, block := range blocks {
			Expect(example.String()).To(ContainSubstring(block[1]))
		}
	})

	It("names every fault, and the code has no other", func() {
		source, err := os.ReadFile(filepath.Join(root, "capstantest", "fault.go"))
		Expect(err).NotTo(HaveOccurred())
		Expect(strings.Count(string(source), " Fault = ")).To(Equal(len(faults)))
		for _, fault := range faults {
			Expect(page()).To(ContainSubstring("`" + string(fault) + "`"))
		}
	})
})
