package crash_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	journalpostgres "github.com/capstan-dev/capstan/internal/runtime/journal/postgres"
	"github.com/capstan-dev/capstan/internal/runtime/postgres"
	testserver "github.com/capstan-dev/capstan/internal/testing/postgres"
)

// cutOneIn is how many statements there are for one whose connection is cut.
const cutOneIn = 12

// database has the journals of all processes in PostgreSQL, in place of the API server: the requests about entries,
// with the faults that befall them, end there. Connections to it are cut at random, before and after the commit.
//
// Entries that are in the database are copied to the API server before any process gets to know of them, so that they
// have a place in the order of what the observer sees. No process reads the copies.
type database struct {
	server *testserver.Server
	name   string
	store  *journalpostgres.Store
	proxy  *testserver.Proxy

	mu      sync.Mutex
	random  *rand.Rand
	entries map[string]*kept
	creates int
	errs    []error
}

// kept is an entry that a process has asked the database for, or has sent to it.
type kept struct {
	mu      sync.Mutex
	session journal.Session
	ordinal int64
	copied  bool
}

// startDatabase starts a server with a database.
func startDatabase(ctx context.Context, seed int64) *database {
	GinkgoHelper()
	server, err := testserver.New(testserver.Options{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(server.Remove()).To(Succeed()) })
	Expect(server.Start()).To(Succeed())
	_, name := server.Database(GinkgoTB())
	proxy := server.Proxy(GinkgoTB())
	db, err := postgres.Open(ctx, postgres.Config{
		Connection: proxy.Connection("postgres", name), TLS: postgres.TLSDisabled, MaxConnections: 32,
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(db.Close)
	Expect(db.Migrate(ctx, "crash")).To(Succeed())
	return &database{
		server: server, name: name, store: journalpostgres.New(db), proxy: proxy, entries: map[string]*kept{},
		random: rand.New(rand.NewPCG(uint64(seed), 1)),
	}
}

// wrap lets requests about entries end in the database.
func (d *database) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		t, ok := targetOf(r)
		switch {
		case !ok || t.resource != "journalentries":
			return next.RoundTrip(r)
		case r.Method == http.MethodGet && t.name != "":
			return d.get(next, r, t)
		case r.Method == http.MethodPost:
			return d.create(r)
		}
		return nil, fmt.Errorf("no process sends %s %s", r.Method, r.URL.Path)
	})
}

// disturb cuts some of the next exchanges.
func (d *database) disturb() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.random.IntN(cutOneIn) == 0 {
		d.proxy.CutNext(testserver.Cut{Response: d.random.IntN(2) == 0, Bytes: d.random.IntN(64)})
	}
}

// of returns the entry of a name; nil if no process has sent it.
func (d *database) of(name string, entry *v1alpha1.JournalEntry) *kept {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.entries[name] == nil && entry != nil {
		owner := entry.OwnerReferences[0]
		d.entries[name] = &kept{
			session: journal.Session{Namespace: entry.Namespace, Name: owner.Name, UID: owner.UID}, ordinal: entry.Spec.Ordinal,
		}
	}
	return d.entries[name]
}

func (d *database) wrong(err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.errs = append(d.errs, err)
	return err
}

// get answers with the entry of the database.
func (d *database) get(next http.RoundTripper, r *http.Request, t target) (*http.Response, error) {
	k := d.of(t.name, nil)
	if k == nil {
		return next.RoundTrip(r) // The API server knows no such entry either, and says so in its words.
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	d.disturb()
	spec, err := d.store.Get(r.Context(), k.session, k.ordinal)
	if errors.Is(err, journal.ErrNotFound) {
		return answer(r, http.StatusNotFound, metav1.StatusReasonNotFound, "there is no such entry", "")
	}
	if err != nil {
		return nil, err
	}
	if err := d.copied(k, t.name, spec); err != nil {
		return nil, err
	}
	body, err := json.Marshal(entryOf(k, t.name, spec))
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header:        http.Header{"Content-Type": []string{"application/json"}},
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
	}, nil
}

// create sends an entry to the database.
func (d *database) create(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	object, _, err := codecs.UniversalDeserializer().Decode(body, nil, nil)
	entry, ok := object.(*v1alpha1.JournalEntry)
	if err != nil || !ok || len(entry.OwnerReferences) != 1 {
		return nil, fmt.Errorf("decoding %T: %w", object, err)
	}
	k := d.of(entry.Name, entry)
	k.mu.Lock()
	defer k.mu.Unlock()
	d.disturb()
	if r.URL.Query().Get("dryRun") != "" {
		err = d.store.DryRun(r.Context(), k.session, &entry.Spec)
	} else {
		err = d.store.Create(r.Context(), k.session, &entry.Spec)
		d.mu.Lock()
		d.creates++
		d.mu.Unlock()
		if err == nil {
			err = d.copied(k, entry.Name, &entry.Spec)
		}
	}
	switch {
	case err == nil:
		return &http.Response{
			StatusCode: http.StatusCreated, Status: "201 Created", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
			Header:        http.Header{"Content-Type": []string{"application/json"}},
			Body:          io.NopCloser(bytes.NewReader(body)),
			ContentLength: int64(len(body)),
		}, nil
	case errors.Is(err, journal.ErrExists):
		return answer(r, http.StatusConflict, metav1.StatusReasonAlreadyExists, "the ordinal is taken", "")
	case errors.Is(err, journal.ErrRefused):
		_ = d.wrong(fmt.Errorf("the database refused entry %d of %s: %w", k.ordinal, k.session.Namespace, err))
		return answer(r, http.StatusForbidden, metav1.StatusReasonForbidden, err.Error(), "")
	}
	return nil, err
}

func entryOf(k *kept, name string, spec *v1alpha1.JournalEntrySpec) *v1alpha1.JournalEntry {
	return &v1alpha1.JournalEntry{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "JournalEntry"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: k.session.Namespace, Name: name, OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "Session", Name: k.session.Name, UID: k.session.UID,
			}},
		},
		Spec: *spec,
	}
}

// copied makes sure that the API server has a copy of an entry of the database. An ordinal that has another copy was
// given twice.
func (d *database) copied(k *kept, name string, spec *v1alpha1.JournalEntrySpec) error {
	if k.copied {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := user.Create(ctx, entryOf(k, name, spec))
	if apierrors.IsAlreadyExists(err) {
		return d.wrong(fmt.Errorf("entry %d of %s was written twice", k.ordinal, k.session.Namespace))
	}
	k.copied = err == nil
	return err
}

// expectWhole expects that the database has every entry that a process has got to know, and no gap.
func (d *database) expectWhole() {
	GinkgoHelper()
	d.mu.Lock()
	defer d.mu.Unlock()
	Expect(errors.Join(d.errs...)).NotTo(HaveOccurred())
	known := 0
	for _, k := range d.entries {
		if k.copied {
			known++
		}
	}
	one := func(statement string) int {
		n, err := strconv.Atoi(d.server.QueryText(GinkgoTB(), d.name, statement))
		Expect(err).NotTo(HaveOccurred())
		return n
	}
	rows := one("SELECT count(*)::text FROM capstan.journal_entries")
	Expect(rows).To(BeNumerically(">=", known), "entries are lost")
	Expect(one(`SELECT count(*)::text FROM (SELECT FROM capstan.journal_entries
		GROUP BY owner HAVING count(*) <> max(ordinal)) gaps`)).To(BeZero(), "journals with gaps")
	Expect(d.proxy.Cuts()).To(BeNumerically(">", d.creates/(4*cutOneIn)), "of %d creates", d.creates)
	AddReportEntry("Database", ReportEntryVisibilityAlways, fmt.Sprintf(
		"%d entries in PostgreSQL, %d creates, %d connections were cut", rows, d.creates, d.proxy.Cuts()))
}
