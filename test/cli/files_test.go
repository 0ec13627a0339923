package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("files", func() {
	It("are listed, printed and copied, at the manager and without it", func(ctx context.Context) {
		namespace := stage(ctx, echo())
		_, edits := tokenUser(ctx, namespace, "capstan-edit")
		_, views := certificateUser(ctx, namespace, "capstan-view")
		ann, ben := as(edits, namespace), as(views, namespace)
		Expect(ben.Run(ctx, "files", "ls", "demo").Out).To(Equal("no files\n"))

		folder := GinkgoT().TempDir()
		report := filepath.Join(folder, "report.txt")
		Expect(os.WriteFile(report, []byte("one\x1b[31m\ntwo\n"), 0o600)).To(Succeed())
		r := ann.Run(ctx, "files", "cp", report, "demo:/notes/")
		Expect(r.Out).To(ContainSubstring("/notes/report.txt created: 13 bytes."))
		Expect(ann.Pipe(ctx, "\x00\xff", "files", "cp", "-", "demo:/b").Out).To(ContainSubstring("/b created: 2 bytes."))

		for _, manager := range []string{"capstan-system", "nowhere"} {
			at := []string{"--manager-namespace", manager}
			list := ben.Run(ctx, append(at, "files", "ls", "demo")...)
			Expect(list.Out).To(MatchRegexp(`(?s)^PATH +BYTES +CHANGED\n/b +2 +20.*\n/notes/ `))
			Expect(strings.Contains(list.Err, "The manager cannot be asked")).To(Equal(manager == "nowhere"))
			Expect(ben.Run(ctx, append(at, "files", "ls", "demo", "-R", "-o", "json")...).Out).
				To(ContainSubstring(`"path":"/notes/report.txt"`))
			Expect(ben.Run(ctx, append(at, "files", "cat", "demo:/notes/report.txt")...).Out).To(Equal("one\x1b[31m\ntwo\n"))
			to := filepath.Join(folder, manager)
			Expect(ben.Run(ctx, append(at, "files", "cp", "demo:/b", to)...).Code).To(Equal(0))
			Expect(os.ReadFile(to)).To(Equal([]byte("\x00\xff")))
			Expect(ben.Run(ctx, append(at, "files", "cat", "demo:/notes")...).Err).To(ContainSubstring("is a directory"))
			Expect(ben.Run(ctx, append(at, "files", "cat", "demo:/none")...).Code).To(Equal(1))
		}

		t := ben.Open(ctx, "files", "cat", "demo:/notes/report.txt")
		Expect(t.Code()).To(Equal(0))
		Expect(t.Text()).To(ContainSubstring(`one\x1b[31m`))
		binary := ben.Open(ctx, "files", "cat", "demo:/b")
		Expect(binary.Code()).To(Equal(1))
		Expect(binary.Text()).To(ContainSubstring("is no text"))

		r = ben.Run(ctx, "files", "cp", report, "demo:/mine")
		Expect(r.Code).To(Equal(1))
		Expect(r.Err).To(ContainSubstring("The role capstan-edit permits it"))
		Expect(ann.Run(ctx, "files", "cp", report, report).Err).To(ContainSubstring("SESSION:PATH"))
	})
})
