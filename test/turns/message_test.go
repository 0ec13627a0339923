package turns_test

import (
	"context"
	"encoding/json"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// pixel is a picture of one, in base64.
const pixel = "R0lGODlhAQABAAAAACw="

func part(text string) v1alpha1.MessagePart { return v1alpha1.MessagePart{Text: text} }

func picture(data string) v1alpha1.MessagePart {
	return v1alpha1.MessagePart{Image: &v1alpha1.MessageImage{MediaType: v1alpha1.ImageMediaTypeGIF, Data: data}}
}

// newTurnOf is a Turn whose message is given in parts.
func newTurnOf(namespace, session, name string, parts ...v1alpha1.MessagePart) *v1alpha1.Turn {
	turn := builder.Turn(name).In(namespace).Session(session).Input("").Obj()
	turn.Spec.Message = &v1alpha1.TurnMessage{Content: parts}
	return turn
}

var _ = Describe("A message in parts", func() {
	It("reaches the model with its images, and the events of the Turn have its text", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("{{input}}|{{images}}"))
		create(ctx, builder.Session("demo").In(namespace).Obj())
		address := v1alpha1.MessagePart{
			Image: &v1alpha1.MessageImage{MediaType: v1alpha1.ImageMediaTypePNG, URL: "https://example.org/a.png"},
		}
		create(ctx, newTurnOf(namespace, "demo", "demo-1", part("What"), picture(pixel), address, part("is it?")))
		given := prompts.of(ctx, namespace, "demo-1")
		Expect(given).To(HaveLen(1))
		read := readOf(given[0].Messages[0])
		Expect(read.Role).To(Equal("user"))
		Expect(read.Content).To(HaveExactElements(
			HaveField("Text", "What"), And(HaveField("Base64", pixel), HaveField("MediaType", "image/gif")),
			And(HaveField("URL", "https://example.org/a.png"), HaveField("MediaType", "image/png")), HaveField("Text", "is it?"),
		))
		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(turn.Status.Output).To(Equal("What\nis it?|image/gif of 14 bytes, image/png at https://example.org/a.png"))
		status, err := json.Marshal(turn.Status)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(status)).NotTo(ContainSubstring(pixel))
		for _, event := range allEvents(ctx, namespace) {
			switch event.Type {
			case "input.message":
				Expect(string(event.Data.Raw)).To(And(ContainSubstring(`"image_id":"img-`), Not(ContainSubstring(pixel))))
			case "turn.started", "turn.completed":
				Expect(
					string(event.Data.Raw),
				).To(And(ContainSubstring(`"input_content":"What\nis it?"`), Not(ContainSubstring(pixel))))
			}
		}
	})

	It("of 1 MiB goes through the log, in entries that fit, and is there for the next Turn", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("{{images}}"))
		watched := watchStatus(ctx, namespace)
		create(ctx, builder.Session("demo").In(namespace).Obj())
		large := strings.Repeat("R0lG", 1<<18)
		create(ctx, newTurnOf(namespace, "demo", "demo-1", picture(large)))
		create(ctx, builder.Turn("demo-2").In(namespace).Input("And now?").Obj())
		given := prompts.of(ctx, namespace, "demo-2")
		Expect(given[0].Messages).To(HaveLen(3))
		Expect(readOf(given[0].Messages[0]).Content[0].Base64).To(Equal(large))
		Expect(kit.Turn(ctx, namespace, "demo-1")()).To(HaveField("Status.Output", "image/gif of 786432 bytes"))
		_, largest := watched.seen()
		Expect(largest).To(BeNumerically("<", maxStatusBytes))
		for _, entry := range entries(ctx, namespace, "demo") {
			raw, err := json.Marshal(entry)
			Expect(err).NotTo(HaveOccurred())
			Expect(len(raw)).To(BeNumerically("<=", maxEntryBytes))
		}
	})

	// again deletes the Turn demo-1 and creates another of that name.
	again := func(ctx context.Context, turn *v1alpha1.Turn) {
		GinkgoHelper()
		Eventually(reasonIn(ctx, turn.Namespace, turn.Name)).Should(BeElementOf("EndTurn", "AlreadyRan", "NameReused"))
		expectReleased(ctx, turn.Namespace, "demo")
		Expect(kit.Client.Delete(ctx, builder.Turn(turn.Name).In(turn.Namespace).Input("").Obj())).To(Succeed())
		create(ctx, turn)
	}

	It("identifies its Turn", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("done"))
		create(ctx, builder.Session("demo").In(namespace).Obj())
		create(ctx, newTurnOf(namespace, "demo", "demo-1", part("Look"), picture(pixel)))
		again(ctx, newTurnOf(namespace, "demo", "demo-1", part("Look"), picture(pixel)))
		Eventually(reasonIn(ctx, namespace, "demo-1")).Should(Equal("AlreadyRan"))
		again(ctx, newTurnOf(namespace, "demo", "demo-1", part("Look"), picture("R0lG")))
		Eventually(reasonIn(ctx, namespace, "demo-1")).Should(Equal("NameReused"))
		again(ctx, builder.Turn("demo-1").In(namespace).Input("Look").Obj())
		Eventually(reasonIn(ctx, namespace, "demo-1")).Should(Equal("NameReused"))
	})

	It("that has one text is the same as that text", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("done"))
		create(ctx, builder.Session("demo").In(namespace).Obj())
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		again(ctx, newTurnOf(namespace, "demo", "demo-1", part("Hello")))
		Eventually(reasonIn(ctx, namespace, "demo-1")).Should(Equal("AlreadyRan"))
	})
})

// reasonIn returns a function that reads the reason of a Turn's condition Succeeded.
func reasonIn(ctx context.Context, namespace, name string) func() (string, error) {
	return func() (string, error) {
		turn, err := kit.Turn(ctx, namespace, name)()
		return reasonOf(turn, v1alpha1.ConditionSucceeded), err
	}
}

var _ = Describe("The locale", func() {
	// Rules: CFG-08.
	It("of a message precedes that of its Session, and reaches the model and the tools", func(ctx context.Context) {
		namespace := newNamespace(
			ctx,
			builder.Script("{{locale}}", builder.Calls("work")),
			builder.JobTool("work", v1alpha1.SideEffectPure).Obj(),
		)
		plain, swiss := builder.Session("plain").In(namespace).Obj(), builder.Session("swiss").In(namespace).Obj()
		swiss.Spec.Locale = "de-CH"
		create(ctx, plain)
		create(ctx, swiss)
		for _, c := range []struct{ session, own, want string }{
			{"plain", "", ""}, {"plain", "fr", "fr"}, {"swiss", "", "de-CH"}, {"swiss", "it-CH", "it-CH"},
		} {
			name := c.session + "-1" + strings.ToLower(c.own)
			turn := builder.Turn(name).In(namespace).Session(c.session).Obj()
			if c.own != "" {
				turn.Spec.Controls = &v1alpha1.TurnControls{Locale: c.own}
			}
			create(ctx, turn)
			for _, p := range prompts.of(ctx, namespace, name) {
				Expect(p.Locale).To(Equal(c.want))
				if c.want == "" {
					Expect(p.System).NotTo(ContainSubstring("locale"))
				} else {
					Expect(p.System).To(ContainSubstring("The user's locale is " + c.want + " "))
				}
			}
			Expect(toolLocale(ctx, namespace, name)).To(Equal(c.want))
		}
		Expect(kit.Turn(ctx, namespace, "swiss-1")()).To(HaveField("Status.Output", "de-CH"))
		Expect(kit.Turn(ctx, namespace, "plain-1")()).To(HaveField("Status.Output", "(no locale)"))
	})
})

// toolLocale is the value of CAPSTAN_LOCALE in the only Job of a Turn.
func toolLocale(ctx context.Context, namespace, turn string) string {
	GinkgoHelper()
	var found batchv1.JobList
	owner, err := kit.Turn(ctx, namespace, turn)()
	Expect(err).NotTo(HaveOccurred())
	Expect(
		kit.Client.List(
			ctx,
			&found,
			client.InNamespace(namespace),
			client.MatchingLabels{v1alpha1.LabelTurnUID: string(owner.UID)},
		),
	).To(Succeed())
	Expect(found.Items).To(HaveLen(1))
	locale := ""
	for _, container := range found.Items[0].Spec.Template.Spec.Containers {
		for _, variable := range container.Env {
			if variable.Name == "CAPSTAN_LOCALE" {
				locale = variable.Value
				Expect(container.Name).To(Equal(v1alpha1.ToolContainerName))
			}
		}
	}
	return locale
}
