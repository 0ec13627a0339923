package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/sessionimage"
	"github.com/capstan-dev/capstan/internal/runtime/sessionimage/imagetest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/test/internal/suite"
)

// seeing is a model that describes the images of a message.
func seeing() v1alpha1.Simulation {
	return v1alpha1.Simulation{Response: &v1alpha1.SimulatedResponse{Text: "{{input}}: {{images}}"}}
}

var _ = Describe("images", func() {
	// Rules: IMG-01.
	It("are stored, listed, copied and deleted, and read without the manager", func(ctx context.Context) {
		namespace := suite.Namespace(ctx, kit.Client, "cli-")
		suite.Create(ctx, kit.Client, builder.Stage(namespace, seeing())...)
		suite.Create(ctx, kit.Client, builder.Session("demo").In(namespace).Obj())
		_, edits := tokenUser(ctx, namespace, "capstan-edit")
		_, views := certificateUser(ctx, namespace, "capstan-view")
		ann, ben := as(edits, namespace), as(views, namespace)
		Expect(ben.Run(ctx, "images", "ls", "demo").Out).To(Equal("no images\n"))

		folder := GinkgoT().TempDir()
		ship, content := filepath.Join(folder, "ship.png"), imagetest.PNG(700_000, "ship")
		Expect(os.WriteFile(ship, content, 0o600)).To(Succeed())
		put := ann.Run(ctx, "images", "put", "demo", ship, "--metadata", "source=harbour")
		id := strings.TrimSpace(put.Out)
		Expect(id).To(Equal(sessionimage.IDOf(content)), put.Err)

		for _, manager := range []string{"capstan-system", "nowhere"} {
			at := []string{"--manager-namespace", manager}
			Expect(ben.Run(ctx, append(at, "images", "ls", "demo")...).Out).To(MatchRegexp(
				`^ID +TYPE +BYTES +CREATED +FILENAME\n` + id + ` +image/png +700000 +20\S+ +ship.png\n$`))
			Expect(ben.Run(ctx, append(at, "images", "ls", "demo", "-o", "json")...).Out).
				To(ContainSubstring(`"metadata":{"source":"harbour"}`))
			to := filepath.Join(folder, manager)
			Expect(os.Mkdir(to, 0o700)).To(Succeed())
			Expect(ben.Run(ctx, append(at, "images", "get", "demo", id, to)...).Out).To(ContainSubstring(": 700000 bytes."))
			Expect(os.ReadFile(filepath.Join(to, id+".png"))).To(Equal(content))
			none := ben.Run(ctx, append(at, "images", "get", "demo", "../../ship", to)...)
			Expect(none.Code).To(Equal(1))
			Expect(none.Err).To(ContainSubstring(`the Session has no image "../../ship"`))
		}
		for _, refused := range [][]string{{"put", "demo", ship}, {"rm", "demo", id}} {
			r := ben.Run(ctx, append([]string{"images"}, refused...)...)
			Expect(r.Code).To(Equal(1))
			Expect(r.Err).To(MatchRegexp(`cannot (create|delete) resource "sessions/images"`))
			Expect(ann.Run(ctx, append([]string{"--manager-namespace", "nowhere", "images"}, refused...)...).Err).
				To(ContainSubstring("the manager cannot be reached"))
		}
		Expect(ann.Pipe(ctx, "<script>", "images", "put", "demo", "-").Err).To(ContainSubstring("not an image"))
		large := filepath.Join(folder, "large.png")
		Expect(os.WriteFile(large, imagetest.PNG(sessionimage.MaxImageBytes+1, "x"), 0o600)).To(Succeed())
		Expect(ann.Run(ctx, "images", "put", "demo", large).Err).To(ContainSubstring("more than 3932160 bytes"))
		Expect(ann.Run(ctx, "images", "rm", "demo", id).Out).To(Equal(id + " is deleted.\n"))
		Expect(ann.Run(ctx, "images", "rm", "demo", id).Err).To(ContainSubstring("has no image"))
		Expect(ben.Run(ctx, "images", "ls", "demo").Out).To(Equal("no images\n"))
	})

	// Rules: IMG-03.
	It("are sent with a message, and those for which it has no room are stored first", func(ctx context.Context) {
		namespace := suite.Namespace(ctx, kit.Client, "cli-")
		suite.Create(ctx, kit.Client, builder.Stage(namespace, seeing())...)
		_, edits := tokenUser(ctx, namespace, "capstan-edit")
		ann, folder := as(edits, namespace), GinkgoT().TempDir()
		file := func(name string, content []byte) string {
			path := filepath.Join(folder, name)
			Expect(os.WriteFile(path, content, 0o600)).To(Succeed())
			return path
		}
		small, large := file("a.png", imagetest.PNG(1000, "a")), file("b.png", imagetest.PNG(2_000_000, "b"))
		text := file("c.png", []byte("a text"))
		refused := ann.Run(ctx, "ask", "--harness", "base", "--session", "demo", "Look", "--image", text)
		Expect(refused.Err).To(ContainSubstring("not an image"))
		r := ann.Run(ctx, "ask", "--harness", "base", "--session", "demo", "Look", "-i", small, "--image", large)
		Expect(r.Out).To(Equal("Look: image/png of 1000 bytes, image/png of 2000000 bytes\n"), r.Err)
		list := ann.Run(ctx, "images", "ls", "demo").Out
		Expect(list).To(And(ContainSubstring("b.png"), ContainSubstring(sessionimage.IDOf(imagetest.PNG(1000, "a")))))

		chat := ann.Pipe(ctx, "And this?\nNo.\n", "chat", "demo", "--image", small)
		Expect(chat.Out).To(And(ContainSubstring("And this?: image/png of 1000 bytes"), ContainSubstring("No.: (no image)")))
	})
})
