package turns_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	database "github.com/capstan-dev/capstan/internal/testing/postgres"
	"github.com/capstan-dev/capstan/test/internal/suite"
)

// documentedCommand returns a command of docs/postgres.md, by its program, for a database and a file.
func documentedCommand(program, connection, file string) []string {
	GinkgoHelper()
	page, err := os.ReadFile("../../docs/postgres.md")
	Expect(err).NotTo(HaveOccurred())
	for line := range strings.Lines(string(page)) {
		line, _, _ = strings.Cut(line, "  #")
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != program {
			continue
		}
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], "capstan.dump", file)
			words[i] = strings.ReplaceAll(words[i], `"$DATABASE"`, connection)
		}
		return words
	}
	Fail("docs/postgres.md does not show " + program)
	return nil
}

var _ = Describe("A backup of PostgreSQL", Serial, Ordered, func() {
	var (
		db         *database.Server
		connection string
		separate   *suite.Server
	)
	BeforeAll(func() {
		separate = suite.Start()
		var err error
		db, err = database.New(database.Options{})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(db.Remove()).To(Succeed()) })
		Expect(db.Start()).To(Succeed())
		connection, _ = db.Database(GinkgoTB())
		restore := kit
		DeferCleanup(func() { kit = restore })
	})
	starts := func() {
		GinkgoHelper()
		started, err := capstantest.Start(context.Background(), separate.Config, capstantest.Options{
			Prompts: prompts.note, Postgres: connection,
			Jobs: func(capstantest.Call) (string, string, int) { return "paid", "", 0 },
		})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(started.Stop()).To(Succeed()) })
		kit = started
	}
	run := func(program, file string) {
		GinkgoHelper()
		words := documentedCommand(program, connection, file)
		db.Program(GinkgoTB(), strings.NewReader(""), words[0], words[1:]...)
	}

	It("has the Turns before it; where it lacks later ones, that is reported, and nothing runs twice", func(
		ctx context.Context,
	) {
		starts()
		pay := guarded(builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj())
		namespace := newNamespace(ctx, builder.Script("It says {{tool:pay}}.", builder.Calls("pay")), pay)
		create(ctx, builder.Session("demo").In(namespace).Obj(), builder.Session("quiet").In(namespace).Obj())
		turn := func(name string) *v1alpha1.Turn {
			GinkgoHelper()
			found, err := kit.Turn(ctx, namespace, name)()
			Expect(err).NotTo(HaveOccurred())
			return found
		}
		// begin creates a Turn of the Session that its name begins with.
		begin := func(name string) *v1alpha1.Turn {
			GinkgoHelper()
			session, _, _ := strings.Cut(name, "-")
			begun := builder.Turn(name).In(namespace).Session(session).Input("Message of " + name).Obj()
			create(ctx, begun)
			return begun
		}
		waits := func(name string) {
			GinkgoHelper()
			Eventually(kit.Turn(ctx, namespace, name)).Should(capstantest.WaitForApproval("pay"))
		}
		pays := func(name string) {
			GinkgoHelper()
			Expect(kit.Approve(ctx, namespace, name, "pay")).To(Succeed())
			Eventually(kit.Turn(ctx, namespace, name)).Should(capstantest.HaveSucceeded())
		}
		whole := func(name string) {
			GinkgoHelper()
			begin(name)
			waits(name)
			pays(name)
		}
		whole("demo-1")
		whole("quiet-1")

		By("taking one while the manager runs, and another one later, while a Turn waits")
		run("pg_dump", "early.dump")
		whole("demo-2")
		whole("quiet-2")
		begin("demo-3")
		waits("demo-3")
		Expect(kit.Stop()).To(Succeed())
		run("pg_dump", "late.dump")
		asked := prompts.count(turn("demo-3").UID)

		By("restoring the early one")
		run("pg_restore", "early.dump")
		starts()
		approval := decision(ctx, namespace, "yes", "demo-3", "1-0", v1alpha1.DecisionApprove)
		create(ctx, approval)
		fourth, third := begin("demo-4"), begin("quiet-3")
		Eventually(func(g Gomega) {
			stalled := meta.FindStatusCondition(turn("demo-3").Status.Conditions, v1alpha1.ConditionStalled)
			g.Expect(stalled).NotTo(BeNil())
			g.Expect(stalled.Reason).To(Equal(v1alpha1.ReasonJournalDamaged))
			g.Expect(stalled.Message).To(ContainSubstring("Restore it from a backup of its store"))
		}).Should(Succeed())
		quiet := func(g Gomega) string {
			session := &v1alpha1.Session{}
			g.Expect(kit.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "quiet"}, session)).To(Succeed())
			return readiness(session)
		}
		Eventually(quiet).Should(Equal(v1alpha1.ReasonJournalDamaged))
		Consistently(func() ([]string, error) { return jobNames(ctx, namespace) }).WithTimeout(20*suite.Polling).
			Should(HaveLen(4), "a tool ran on a journal that lacks entries")
		Expect(prompts.count(fourth.UID) + prompts.count(third.UID)).To(BeZero())
		Expect(prompts.count(turn("demo-3").UID)).To(Equal(asked))
		Expect(turn("demo-4").Status.Plan).To(BeNil())

		By("going on in a new Session meanwhile")
		create(ctx, builder.Session("new").In(namespace).Obj())
		whole("new-1")
		Expect(kit.Client.Delete(ctx, approval)).To(Succeed())
		Expect(kit.Stop()).To(Succeed())

		By("restoring the late one")
		run("pg_restore", "late.dump")
		starts()
		Eventually(quiet).Should(Equal(v1alpha1.ReasonReady))
		for _, name := range []string{"demo-3", "demo-4", "quiet-3"} {
			waits(name)
			pays(name)
		}
		Expect(jobNames(ctx, namespace)).To(HaveLen(8), "of demo-1 to demo-4, quiet-1 to quiet-3 and new-1")
		last := prompts.of(ctx, namespace, "demo-4")
		Expect(last).NotTo(BeEmpty())
		for _, name := range []string{"demo-1", "demo-2", "demo-3", "demo-4"} {
			Expect(fmt.Sprintf("%s", last[0].Messages)).To(ContainSubstring("Message of " + name))
		}
	})
})
