package turns_test

import (
	"context"
	"fmt"
	"net"
	"net/http/httptest"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/streamclient"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	database "github.com/capstan-dev/capstan/internal/testing/postgres"
	"github.com/capstan-dev/capstan/test/internal/suite"
)

// inKubernetes returns the numbers of journal entries and records that the API server has of a namespace.
func inKubernetes(ctx context.Context, namespace string) (entries, records int) {
	GinkgoHelper()
	var journal v1alpha1.JournalEntryList
	Expect(kit.Client.List(ctx, &journal, client.InNamespace(namespace))).To(Succeed())
	var list v1alpha1.RecordList
	Expect(kit.Client.List(ctx, &list, client.InNamespace(namespace))).To(Succeed())
	return len(journal.Items), len(list.Items)
}

// sessionIn reads Session demo.
func sessionIn(ctx context.Context, namespace string) func(Gomega) *v1alpha1.Session {
	return func(g Gomega) *v1alpha1.Session {
		session := &v1alpha1.Session{}
		g.Expect(kit.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "demo"}, session)).To(Succeed())
		return session
	}
}

// readiness is the reason of the condition Ready.
func readiness(session *v1alpha1.Session) string {
	if ready := meta.FindStatusCondition(session.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		return ready.Reason
	}
	return ""
}

var _ = Describe("Sessions whose store is PostgreSQL", Serial, Ordered, func() {
	var (
		db         *database.Server
		name       string
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
		connection, name = db.Database(GinkgoTB())
	})
	// startsWith starts a manager with further options.
	startsWith := func(o capstantest.Options) {
		GinkgoHelper()
		o.Prompts, o.NoJobPlayer = prompts.note, true
		started, err := capstantest.Start(context.Background(), separate.Config, o)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(started.Stop()).To(Succeed()) })
		kit = started
	}
	// starts starts a manager, with the database or without.
	starts := func(postgres string) {
		GinkgoHelper()
		startsWith(capstantest.Options{Postgres: postgres})
	}
	BeforeEach(func() {
		restore := kit
		DeferCleanup(func() { kit = restore })
	})
	// rows are those of a namespace: entries, indexes and blobs.
	rows := func(namespace string) string {
		GinkgoHelper()
		count := func(table string) string {
			return fmt.Sprintf("(SELECT count(*) FROM capstan.%s r JOIN capstan.owners o ON o.id = r.owner "+
				"WHERE o.namespace = '%s')", table, namespace)
		}
		return db.QueryText(GinkgoTB(), name, "SELECT "+count("journal_entries")+" || ' entries, ' || "+
			count("record_indexes")+" || ' indexes'")
	}

	// Rules: STORE-01, STORE-02.
	It("run, survive a restart of the manager, and leave no rows", func(ctx context.Context) {
		starts(connection)
		namespace := filesNamespace(ctx, map[string][]v1alpha1.SimulatedToolCall{
			"Write": {fileCall("write_file", `{"path": "/plan.md", "content": "Sail north"}`)},
			"Read":  {fileCall("read_file", `{"path": "/plan.md"}`)},
		})
		Expect(sessionIn(ctx, namespace)(Default).Status.Store).To(Equal(v1alpha1.SessionStorePostgres))
		create(ctx, builder.Turn("demo-1").In(namespace).Input("Write").Obj())
		written := answered(ctx, namespace)
		Expect(kit.Stop()).To(Succeed())
		create(ctx, builder.Turn("demo-2").In(namespace).Input("Read").Obj())

		starts(connection)
		Eventually(kit.Turn(ctx, namespace, "demo-2")).Should(capstantest.HaveSucceeded())
		read, err := kit.Turn(ctx, namespace, "demo-2")()
		Expect(err).NotTo(HaveOccurred())
		Expect(read.Status.Output).To(ContainSubstring("Sail north"))
		Expect(prompts.of(ctx, namespace, "demo-1")).To(HaveLen(int(written.Status.Summary.ModelCalls)))
		entries, records := inKubernetes(ctx, namespace)
		Expect(entries+records).To(BeZero(), "the API server has journal entries or records")
		Expect(rows(namespace)).To(MatchRegexp(`^[1-9]\d* entries, [1-9]\d* indexes$`))

		By("adopting the outcome of a Turn that is created again")
		Expect(kit.Client.Delete(ctx, read)).To(Succeed())
		create(ctx, builder.Turn("demo-2").In(namespace).Input("Read").Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-2")).Should(capstantest.HaveSucceeded())
		Expect(prompts.of(ctx, namespace, "demo-2")).To(BeEmpty(), "the model was called again")

		By("deleting the Session with its Turns")
		Expect(kit.Client.DeleteAllOf(ctx, &v1alpha1.Turn{}, client.InNamespace(namespace))).To(Succeed())
		Eventually(func(g Gomega) {
			var turns v1alpha1.TurnList
			g.Expect(kit.Client.List(ctx, &turns, client.InNamespace(namespace))).To(Succeed())
			g.Expect(turns.Items).To(BeEmpty())
		}).Should(Succeed())
		Expect(kit.Client.Delete(ctx, sessionIn(ctx, namespace)(Default))).To(Succeed())
		Eventually(rows).WithArguments(namespace).WithTimeout(time.Minute).Should(Equal("0 entries, 0 indexes"))
	})

	// Rules: STORE-01.
	It("wait for a manager that has the database", func(ctx context.Context) {
		starts(connection)
		namespace := newNamespace(ctx, builder.Script("Aye"))
		create(ctx, builder.Session("demo").In(namespace).Obj(), builder.Turn("demo-1").In(namespace).Obj())
		answered(ctx, namespace)
		Expect(kit.Stop()).To(Succeed())

		starts("")
		Eventually(sessionIn(ctx, namespace)).Should(WithTransform(readiness, Equal(v1alpha1.ReasonStoreUnavailable)))
		waiting := builder.Turn("demo-2").In(namespace).Obj()
		create(ctx, waiting)
		Consistently(kit.Turn(ctx, namespace, "demo-2")).WithTimeout(suite.Polling * 20).
			Should(HaveField("Status.Plan", BeNil()))
		Expect(prompts.count(waiting.UID)).To(BeZero())
		Expect(kit.Stop()).To(Succeed())

		starts(connection)
		Eventually(kit.Turn(ctx, namespace, "demo-2")).Should(capstantest.HaveSucceeded())
		Eventually(sessionIn(ctx, namespace)).Should(WithTransform(readiness, Equal(v1alpha1.ReasonReady)))
		entries, _ := inKubernetes(ctx, namespace)
		Expect(entries).To(BeZero())
	})

	// Rules: STORE-01.
	It("leave those of Kubernetes where they are", func(ctx context.Context) {
		starts("")
		namespace := newNamespace(ctx, builder.Script("Aye"))
		create(ctx, builder.Session("demo").In(namespace).Obj(), builder.Turn("demo-1").In(namespace).Obj())
		answered(ctx, namespace)
		before, _ := inKubernetes(ctx, namespace)
		Expect(kit.Stop()).To(Succeed())

		starts(connection)
		create(ctx, builder.Turn("demo-2").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-2")).Should(capstantest.HaveSucceeded())
		Expect(sessionIn(ctx, namespace)(Default).Status.Store).To(Equal(v1alpha1.SessionStoreKubernetes))
		after, _ := inKubernetes(ctx, namespace)
		Expect(after).To(BeNumerically(">", before))
		Expect(rows(namespace)).To(Equal("0 entries, 0 indexes"))
	})

	It("are streamed by an account that may only read", func(ctx context.Context) {
		starts(connection)
		namespace := newNamespace(ctx, builder.Script("Aye"))
		create(ctx, builder.Session("demo").In(namespace).Obj(), builder.Turn("demo-1").In(namespace).Obj())
		answered(ctx, namespace)
		Expect(kit.Stop()).To(Succeed())

		db.Exec(GinkgoTB(), name, "CREATE ROLE streams LOGIN")
		listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		known := httptest.NewTLSServer(nil)
		certificate := known.TLS.Certificates[0]
		known.Close()
		startsWith(capstantest.Options{
			Postgres: connection, PostgresReader: db.Connection("streams", name),
			Streams: &capstantest.Streams{Listener: listener, Certificate: &certificate},
		})
		place := &streamPlace{address: listener.Addr().String(), as: separate.User("admin", "system:masters").Config()}
		follower := &streamclient.Client{Endpoints: place}
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		var received atomic.Int64
		ended := make(chan error)
		go func() {
			for e, err := range follower.Follow(ctx, stream.Session{Namespace: namespace, Name: "demo"}, 0) {
				if err != nil || e.Type == stream.TypeSessionIdled {
					ended <- err
					return
				}
				if e.Sequence > 0 {
					received.Add(1)
				}
			}
		}()
		By("failing for want of the right to read, while Turns go on")
		Eventually(managerLog.contains).WithArguments("42501").Should(BeTrue())
		create(ctx, builder.Session("other").In(namespace).Obj(),
			builder.Turn("other-1").In(namespace).Session("other").Obj())
		Eventually(kit.Turn(ctx, namespace, "other-1")).Should(capstantest.HaveSucceeded())
		Expect(received.Load()).To(BeZero())

		By("reading with it")
		db.Exec(GinkgoTB(), name, "GRANT USAGE ON SCHEMA capstan TO streams",
			"GRANT SELECT ON capstan.owners, capstan.journal_entries TO streams")
		Eventually(ended).WithTimeout(30 * time.Second).Should(Receive(Succeed()))
		Expect(received.Load()).To(BeNumerically(">", 3))
	})
})
