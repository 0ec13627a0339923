package turns_test

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	database "github.com/capstan-dev/capstan/internal/testing/postgres"
	"github.com/capstan-dev/capstan/test/internal/suite"
)

var _ = Describe("A failover of PostgreSQL", Serial, func() {
	It("while calls run loses nothing, and starts and asks nothing twice", func(ctx context.Context) {
		const sessions = 6
		separate := suite.Start()
		primary, err := database.New(database.Options{Durable: true})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(primary.Remove()).To(Succeed()) })
		Expect(primary.Start()).To(Succeed())
		_, name := primary.Database(GinkgoTB())
		replica := primary.Replica(GinkgoTB())
		// Set last: until the replica exists, no commit would be confirmed.
		primary.Exec(GinkgoTB(), "postgres", "ALTER SYSTEM SET synchronous_standby_names = 'replica'",
			"SELECT pg_reload_conf()")
		primary.WaitFor(GinkgoTB(), "postgres", "SELECT sync_state FROM pg_stat_replication", "sync")
		host, port, err := net.SplitHostPort(primary.Address())
		Expect(err).NotTo(HaveOccurred())
		otherHost, otherPort, err := net.SplitHostPort(replica.Address())
		Expect(err).NotTo(HaveOccurred())

		var running atomic.Int64
		proceed := make(chan struct{})
		restore := kit
		DeferCleanup(func() { kit = restore })
		kit, err = capstantest.Start(context.Background(), separate.Config, capstantest.Options{
			Prompts: prompts.note,
			Jobs: func(capstantest.Call) (string, string, int) {
				running.Add(1)
				<-proceed
				return "paid", "", 0
			},
			Postgres: fmt.Sprintf("host=%s,%s port=%s,%s user=postgres dbname=%s", host, otherHost, port, otherPort, name),
		})
		Expect(err).NotTo(HaveOccurred())
		started := kit
		DeferCleanup(func() { Expect(started.Stop()).To(Succeed()) })

		pay := builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj()
		namespace := newNamespace(ctx, builder.Script("It says {{tool:pay}}.", builder.Calls("pay")), pay)
		uids := map[string]types.UID{}
		for i := range sessions {
			session := fmt.Sprintf("s%d", i)
			turn := builder.Turn(session + "-1").In(namespace).Session(session).Obj()
			create(ctx, builder.Session(session).In(namespace).Obj(), turn)
			uids[turn.Name] = turn.UID
		}
		Eventually(running.Load).WithTimeout(time.Minute).Should(BeEquivalentTo(sessions))

		By("killing the primary, and promoting the replica while results wait to be recorded")
		Expect(primary.Kill()).To(Succeed())
		close(proceed)
		replica.Promote(GinkgoTB())
		for turn, uid := range uids {
			Eventually(kit.Turn(ctx, namespace, turn)).WithTimeout(2 * time.Minute).Should(capstantest.HaveSucceeded())
			Expect(kit.Turn(ctx, namespace, turn)()).To(
				capstantest.HaveToolCall("pay", v1alpha1.ToolCallStateSucceeded, v1alpha1.ToolCallReasonCompleted))
			Expect(prompts.count(uid)).To(Equal(2), "the model calls of %s", turn)
		}
		Expect(jobNames(ctx, namespace)).To(HaveLen(sessions))
		Expect(running.Load()).To(BeEquivalentTo(sessions))
		Expect(replica.QueryText(GinkgoTB(), name, `SELECT count(*)::text FROM (SELECT FROM capstan.journal_entries
			GROUP BY owner HAVING count(*) <> max(ordinal)) gaps`)).To(Equal("0"))
		Expect(replica.QueryText(GinkgoTB(), name, `WITH e AS (
			SELECT owner, convert_from(envelope, 'UTF8')::jsonb AS envelope FROM capstan.journal_entries)
			SELECT count(*) || ' steps, ' || count(DISTINCT (owner, envelope->'turn'->>'uid', envelope->'step')) || ' closed'
			FROM e WHERE (envelope->'final')::boolean`)).To(
			Equal(fmt.Sprintf("%d steps, %d closed", 3*sessions, 3*sessions)))
	})
})
