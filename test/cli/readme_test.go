package cli_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/capstan-dev/capstan/test/internal/suite"
)

var (
	manifestBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")
	shellBlock    = regexp.MustCompile("(?s)```sh\n(.*?)```")
	target        = regexp.MustCompile(`^make ([a-z-]+)`)
	trailing      = regexp.MustCompile(`\s+# .*$`)
)

// readmeCommands are the commands in the blocks of README, in order, without comments.
func readmeCommands(readme string) (commands []string) {
	for _, block := range shellBlock.FindAllStringSubmatch(readme, -1) {
		for line := range strings.Lines(block[1]) {
			commands = append(commands, trailing.ReplaceAllString(strings.TrimSpace(line), ""))
		}
	}
	return commands
}

var _ = Describe("README", func() {
	It("runs as written, after an install", func(ctx context.Context) {
		content, err := os.ReadFile("../../README.md")
		Expect(err).NotTo(HaveOccurred())
		makefile, err := os.ReadFile("../../Makefile")
		Expect(err).NotTo(HaveOccurred())
		namespace := suite.Namespace(ctx, kit.Client, "readme-")
		folder := GinkgoT().TempDir()
		write := func(name, text string) {
			Expect(os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600)).To(Succeed())
		}
		write("demo.yaml", manifestBlock.FindStringSubmatch(string(content))[1])
		kubeconfig, err := os.ReadFile(server.Kubeconfig)
		Expect(err).NotTo(HaveOccurred())
		write("kubeconfig", string(kubeconfig))
		Expect(os.Symlink(binary, filepath.Join(folder, "kubectl-capstan"))).To(Succeed())
		Expect(os.Symlink(suite.KubectlPath(), filepath.Join(folder, "kubectl"))).To(Succeed())
		run := func(command string) string {
			GinkgoHelper()
			shell := exec.CommandContext(ctx, "bash", "-euc", command)
			shell.Dir, shell.Stdin = folder, strings.NewReader("Hello?\n")
			shell.Env = append(os.Environ(), "PATH="+folder+":"+os.Getenv("PATH"),
				"KUBECONFIG="+filepath.Join(folder, "kubeconfig"))
			output, err := shell.CombinedOutput()
			Expect(err).NotTo(HaveOccurred(), "%s\n%s", command, output)
			return string(output)
		}
		run("kubectl config set-context --current --namespace=" + namespace)

		outputs := map[string]string{
			"kubectl apply -f demo.yaml && kubectl capstan chat demo":        "You said: Hello?\n",
			"kubectl apply -f demo.yaml":                                     "turn.capstan.dev/demo-1 unchanged\n",
			"kubectl wait --for=condition=Finished turn/demo-1 --timeout=5m": "turn.capstan.dev/demo-1 condition met\n",
			"kubectl get turn demo-1 -o jsonpath='{.status.output}'":         "You said: How many words has this sentence?",
			`kubectl capstan ask demo "How many words has this sentence?"`:   "You said: How many words has this sentence?\n",
			"kubectl capstan log demo":                                       "agent      You said: How many words has",
		}
		ran := 0
		for _, command := range readmeCommands(string(content)) {
			if name := target.FindStringSubmatch(command); name != nil {
				Expect(string(makefile)).To(ContainSubstring("\n"+name[1]+": "), command)
				continue
			}
			if strings.HasPrefix(command, "go install ") || strings.HasSuffix(command, "-f bin/release/install.yaml") {
				continue // hack/release installs from a release, and this suite builds the plugin
			}
			want, known := outputs[command]
			Expect(known).To(BeTrue(), "README has a command without an expected output: %s", command)
			Expect(run(command)).To(ContainSubstring(want), command)
			ran++
		}
		Expect(ran).To(Equal(len(outputs)))
	})
})
