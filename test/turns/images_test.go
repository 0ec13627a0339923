package turns_test

import (
	"context"
	"encoding/base64"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	records "github.com/capstan-dev/capstan/internal/runtime/record/kubernetes"
	"github.com/capstan-dev/capstan/internal/runtime/sessionimage"
	"github.com/capstan-dev/capstan/internal/runtime/sessionimage/imagetest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/test/internal/suite"
)

// imagesOf are the images of a Session on a server, as another process sees them.
func imagesOf(ctx context.Context, config *rest.Config, namespace, name string) *sessionimage.Images {
	GinkgoHelper()
	var session v1alpha1.Session
	Expect(kit.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &session)).To(Succeed())
	objects, err := records.ForConfig(config, nil)
	Expect(err).NotTo(HaveOccurred())
	return sessionimage.Of(record.New(objects, record.Options{}),
		record.Session{Namespace: namespace, Name: name, UID: session.UID})
}

// putImage stores an image of a Session, and returns its id.
func putImage(ctx context.Context, namespace, session string, content []byte) string {
	GinkgoHelper()
	info, err := imagesOf(ctx, config, namespace, session).Create(ctx, record.Cause{}, sessionimage.Draft{
		ContentType: "image/png", Bytes: content,
	})
	Expect(err).NotTo(HaveOccurred())
	return info.ID
}

func pngPart(content []byte) v1alpha1.MessagePart {
	return v1alpha1.MessagePart{Image: &v1alpha1.MessageImage{
		MediaType: v1alpha1.ImageMediaTypePNG, Data: base64.StdEncoding.EncodeToString(content),
	}}
}

func storedPart(id string) v1alpha1.MessagePart {
	return v1alpha1.MessagePart{ImageRef: &v1alpha1.MessageImageRef{ID: id}}
}

// journalText is the text of all entries of a Session, with their payloads decompressed.
func journalText(ctx context.Context, namespace string) string {
	GinkgoHelper()
	var all strings.Builder
	for _, e := range allEvents(ctx, namespace) {
		all.Write(e.Data.Raw)
	}
	return all.String()
}

// shownIn are the images in base64 that a model was shown in a message of a prompt.
func shownIn(message string) []string {
	GinkgoHelper()
	shown := []string{}
	for _, part := range readOf(message).Content {
		if part.Base64 != "" {
			shown = append(shown, part.Base64)
		}
	}
	return shown
}

// missing is in the text of a message in place of an image that the Session does not have.
const missing = "an image that this session does not have any more"

var _ = Describe("The images of a Session", func() {
	// Rules: IMG-03.
	DescribeTable("cost, beside a Turn of one model call",
		func(ctx context.Context, size int, written []string) {
			namespace := newNamespace(ctx, builder.Script("{{images}}"))
			create(ctx, builder.Session("demo").In(namespace).Obj())
			Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseStarted))
			for i, name := range []string{"demo-1", "demo-2"} {
				before, _ := requests.budgeted(namespace)
				create(ctx, newTurnOf(namespace, "demo", name, pngPart(imagetest.PNG(size, "x"))))
				Eventually(kit.Turn(ctx, namespace, name)).Should(capstantest.HaveSucceeded())
				expectWrites(ctx, namespace, len(before), ConsistOf(slices.Concat(
					beginning, [][]string{written, nil}[i], ending)))
			}
		},
		Entry("1 write for a small one, and nothing when it is sent again", 200, []string{"POST records"}),
		Entry("2 writes for one of 512 KiB", 512<<10, []string{blobWrite, "POST records"}),
		Entry("3 writes for one of more", 600<<10, []string{blobWrite, blobWrite, "POST records"}),
	)

	// Rules: IMG-01, IMG-02, IMG-03.
	It("are not in its journal, and belong to it alone", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("{{images}}"))
		create(ctx, builder.Session("demo").In(namespace).Obj(), builder.Session("other").In(namespace).Obj())
		content := imagetest.PNG(20_000, "ship")
		create(ctx, newTurnOf(namespace, "demo", "demo-1", part("Which ship?"), pngPart(content)))
		encoded := base64.StdEncoding.EncodeToString(content)
		Expect(shownIn(prompts.of(ctx, namespace, "demo-1")[0].Messages[0])).To(Equal([]string{encoded}))
		id := sessionimage.IDOf(content)
		Expect(journalText(ctx, namespace)).To(And(Not(ContainSubstring(encoded[:200])), ContainSubstring(id)))
		Expect(imagesOf(ctx, config, namespace, "demo").List(ctx)).To(HaveExactElements(And(
			HaveField("ID", id), HaveField("Size", BeEquivalentTo(20_000)), HaveField("ContentType", "image/png"))))
		var session v1alpha1.Session
		Expect(kit.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: "demo"}, &session)).To(Succeed())
		Expect(recordsOf(ctx, namespace)).To(And(HaveLen(2), HaveEach(
			HaveField("OwnerReferences", ContainElement(HaveField("UID", session.UID))))),
			"the garbage collector deletes them with the Session")

		create(ctx, newTurnOf(namespace, "other", "other-1", part("Mine?"), storedPart(id)))
		foreign := readOf(prompts.of(ctx, namespace, "other-1")[0].Messages[0])
		Expect(foreign.Content).To(HaveExactElements(
			HaveField("Text", "Mine?"), HaveField("Text", ContainSubstring(missing))))
	})

	// Rules: IMG-02, IMG-03.
	It("reach a real provider by value, in each request the same", func(ctx context.Context) {
		s := newSite(inTurn(anthropicText("A ship."), anthropicText("Old."), anthropicText("Bye.")))
		namespace := withModel(ctx, v1alpha1.ModelProviderAnthropic, s, nil)
		create(ctx, keySecret(namespace))
		content := imagetest.PNG(30_000, "ship")
		create(ctx, newTurnOf(namespace, "demo", "demo-1", part("What is this?"), pngPart(content)))
		Expect(answered(ctx, namespace).Status.Output).To(Equal("A ship."))
		create(ctx, newTurnOf(namespace, "demo", "demo-2", part("And this?"), storedPart(sessionimage.IDOf(content))))
		Eventually(kit.Turn(ctx, namespace, "demo-2")).Should(HaveField("Status.Output", "Old."))
		Expect(imagesOf(ctx, config, namespace, "demo").Delete(ctx, record.Cause{}, sessionimage.IDOf(content))).To(BeTrue())
		create(ctx, builder.Turn("demo-3").In(namespace).Input("Bye.").Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-3")).Should(HaveField("Status.Output", "Bye."))

		source := `"data":"` + base64.StdEncoding.EncodeToString(content) + `","media_type":"image/png","type":"base64"`
		for i, r := range s.requests() {
			Expect(strings.Count(r.body, source)).To(Equal([]int{1, 2, 0}[i]))
			Expect(strings.Count(r.body, missing)).To(Equal([]int{0, 0, 2}[i]))
			Expect(r.body).NotTo(ContainSubstring("img-"), "ids mean nothing to a provider")
		}
		Expect(s.requests()).To(HaveLen(3))
	})

	// Rules: IMG-01, IMG-03.
	It("are named by messages, also those of 3.75 MiB", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("{{images}}"))
		create(ctx, builder.Session("demo").In(namespace).Obj())
		content := imagetest.PNG(sessionimage.MaxImageBytes, "large")
		id := putImage(ctx, namespace, "demo", content)
		create(ctx, newTurnOf(namespace, "demo", "demo-1", part("Look."), storedPart(id)))
		given := prompts.of(ctx, namespace, "demo-1")
		Expect(shownIn(given[0].Messages[0])).To(Equal([]string{base64.StdEncoding.EncodeToString(content)}))
		Expect(kit.Turn(ctx, namespace, "demo-1")()).To(HaveField("Status.Output", "image/png of 3932160 bytes"))
		Expect(imagesOf(ctx, config, namespace, "demo").Delete(ctx, record.Cause{}, id)).To(BeTrue())
		create(ctx, builder.Turn("demo-2").In(namespace).Input("And now?").Obj())
		given = prompts.of(ctx, namespace, "demo-2")
		Expect(readOf(given[0].Messages[0]).Content).To(HaveExactElements(
			HaveField("Text", "Look."), HaveField("Text", ContainSubstring(missing))))
		Expect(kit.Turn(ctx, namespace, "demo-2")()).To(HaveField("Status.Output", "(no image)"))
	})
})

var _ = Describe("The images of a Session whose manager was restarted", Serial, func() {
	// Rules: IMG-03.
	It("are the same to the byte, until they are deleted", func(ctx context.Context) {
		own, others := suite.Start().Config, kit
		DeferCleanup(func() { kit = others })
		start := func() {
			GinkgoHelper()
			var err error
			kit, err = capstantest.Start(context.Background(), own,
				capstantest.Options{Prompts: prompts.note, NoJobPlayer: true})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(kit.Stop)
		}
		start()
		namespace := newNamespace(ctx, builder.Script("{{images}}"))
		create(ctx, builder.Session("demo").In(namespace).Obj())
		content := imagetest.PNG(700_000, "ship")
		create(ctx, newTurnOf(namespace, "demo", "demo-1", part("Look."), pngPart(content)))
		first := prompts.of(ctx, namespace, "demo-1")
		Expect(kit.Stop()).To(Succeed())

		start()
		create(ctx, builder.Turn("demo-2").In(namespace).Input("Again.").Obj())
		Expect(prompts.of(ctx, namespace, "demo-2")[0].Messages[0]).To(Equal(first[0].Messages[0]))
		Expect(kit.Stop()).To(Succeed())

		id := sessionimage.IDOf(content)
		Expect(imagesOf(ctx, own, namespace, "demo").Delete(ctx, record.Cause{}, id)).To(BeTrue())
		start()
		create(ctx, builder.Turn("demo-3").In(namespace).Input("Once more.").Obj())
		third := prompts.of(ctx, namespace, "demo-3")
		Expect(shownIn(third[0].Messages[0])).To(BeEmpty())
		Expect(third[0].Messages[0]).To(ContainSubstring(missing))
	})
})
