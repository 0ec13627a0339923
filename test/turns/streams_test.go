package turns_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/streamclient"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/test/internal/suite"
)

// streamPlace is where the event streams of the newest kit are.
type streamPlace struct {
	mu      sync.Mutex
	address string
	as      *rest.Config
}

// Endpoint implements streamclient.Endpoints, with the credentials of a configuration.
func (p *streamPlace) Endpoint(context.Context) (streamclient.Endpoint, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := &tls.Config{RootCAs: testRoots(), ServerName: "example.com", MinVersion: tls.VersionTLS12}
	if len(p.as.CertData) > 0 {
		pair, err := tls.X509KeyPair(p.as.CertData, p.as.KeyData)
		if err != nil {
			return streamclient.Endpoint{}, err
		}
		own.Certificates = []tls.Certificate{pair}
	}
	transport := &http.Transport{TLSClientConfig: own, DisableKeepAlives: true}
	return streamclient.Endpoint{
		URL: "https://" + p.address, Client: &http.Client{Transport: bearing{transport, p.as.BearerToken}},
	}, nil
}

// bearing sends a bearer token, if there is one.
type bearing struct {
	http.RoundTripper
	token string
}

// RoundTrip implements http.RoundTripper.
func (b bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return b.RoundTripper.RoundTrip(r)
}

// pathLog has the requests of a kit.
type pathLog struct {
	http.RoundTripper
	mu  *sync.Mutex
	all *[]string
}

// RoundTrip implements http.RoundTripper.
func (l pathLog) RoundTrip(r *http.Request) (*http.Response, error) {
	l.mu.Lock()
	*l.all = append(*l.all, r.Method+" "+r.URL.RequestURI())
	l.mu.Unlock()
	return l.RoundTripper.RoundTrip(r)
}

var _ = Describe("The event stream of a Session", Serial, Ordered, func() {
	var server *suite.Server
	var paths pathLog
	place := &streamPlace{}

	BeforeAll(func() { server = suite.Start() })
	BeforeEach(func() {
		restore := kit
		DeferCleanup(func() { kit = restore })
	})

	// serve starts a kit, at another address than the one before.
	serve := func() (stop func()) {
		GinkgoHelper()
		listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		known := httptest.NewTLSServer(nil)
		certificate := known.TLS.Certificates[0]
		known.Close()
		paths = pathLog{mu: &sync.Mutex{}, all: &[]string{}}
		started, err := capstantest.Start(context.Background(), server.Config, capstantest.Options{
			Transport: func(next http.RoundTripper) http.RoundTripper {
				return pathLog{next, paths.mu, paths.all}
			},
			Streams: &capstantest.Streams{Listener: listener, Certificate: &certificate},
			Jobs:    jobs.Run,
		})
		Expect(err).NotTo(HaveOccurred())
		stop = sync.OnceFunc(func() { Expect(started.Stop()).To(Succeed()) })
		DeferCleanup(stop)
		place.mu.Lock()
		defer place.mu.Unlock()
		kit, place.address = started, listener.Addr().String()
		return stop
	}

	// mayFollow lets a user, or a ServiceAccount, follow the Sessions of a namespace.
	mayFollow := func(ctx context.Context, namespace string, subject rbacv1.Subject) {
		GinkgoHelper()
		meta := metav1.ObjectMeta{Namespace: namespace, Name: "follow"}
		create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"capstan.dev"}, Resources: []string{"sessions/events"}, Verbs: []string{"get"},
		}}}, &rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "follow"},
			Subjects: []rbacv1.Subject{subject},
		})
	}

	// words is a model that says so many words, one in a hundred milliseconds.
	words := func(n int) v1alpha1.Simulation {
		return v1alpha1.Simulation{
			Response: builder.Fixed(strings.TrimSpace(strings.Repeat("word ", n))),
			Latency:  &metav1.Duration{Duration: time.Duration(n) * 100 * time.Millisecond},
		}
	}

	// journaled are the ids of the events in the journal.
	journaled := func(ctx context.Context, namespace string) (ids []string) {
		GinkgoHelper()
		for _, entry := range journalOf(ctx, namespace) {
			if entry.Final {
				for _, e := range entry.Events {
					ids = append(ids, e.ID)
				}
			}
		}
		return ids
	}

	// follow follows the Session demo until its Turn has ended. Each text of a response is passed to shown.
	follow := func(ctx context.Context, namespace string, as *rest.Config, shown func(string)) (ids []string, texts int) {
		GinkgoHelper()
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		place.as = as
		client := &streamclient.Client{Endpoints: place}
		text := ""
		for e, err := range client.Follow(ctx, stream.Session{Namespace: namespace, Name: "demo"}, 0) {
			Expect(err).NotTo(HaveOccurred())
			if e.Sequence > 0 {
				ids = append(ids, e.ID)
				Expect(e.Sequence).To(BeEquivalentTo(len(ids)))
			}
			switch e.Type {
			case stream.TypeOutputMessageDelta:
				data, err := stream.Decode[stream.OutputMessageDelta](e)
				Expect(err).NotTo(HaveOccurred())
				text = text[:data.Offset] + data.Text
				texts++
				shown(text)
			case stream.TypeOutputMessageCompleted:
				data, err := stream.Decode[stream.OutputMessageCompleted](e)
				Expect(err).NotTo(HaveOccurred())
				Expect(data.Message.Content[0].Text).To(HavePrefix(text))
			case stream.TypeSessionIdled:
				return ids, texts
			}
		}
		return ids, texts
	}

	// Rules: LLM-04, EVT-02, EVT-05.
	It("has words as they come, and what the journal has, for a client certificate", func(ctx context.Context) {
		serve()
		namespace := newNamespace(ctx, words(10))
		ann := server.User("ann")
		mayFollow(ctx, namespace, rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: "ann"})
		create(ctx, builder.Session("demo").In(namespace).Obj(), builder.Turn("demo-1").In(namespace).Obj())
		ids, texts := follow(ctx, namespace, ann.Config(), func(string) {})
		Expect(texts).To(BeNumerically(">", 3))
		Expect(ids).To(Equal(journaled(ctx, namespace)))
		Expect(answered(ctx, namespace).Status.Output).To(HavePrefix("word"))
		paths.mu.Lock()
		defer paths.mu.Unlock()
		Expect(*paths.all).To(ContainElement(ContainSubstring("/subjectaccessreviews")))
		for _, request := range *paths.all {
			Expect(request).NotTo(MatchRegexp(`^(PUT|PATCH|DELETE) .*journalentries`))
			Expect(request).NotTo(ContainSubstring("journalentries?"), "nothing lists or watches entries")
		}
	})

	It("is for tokens of this server and of the API server, with the right to get it", func(ctx context.Context) {
		serve()
		namespace := newNamespace(ctx, builder.Script("Hello."))
		create(ctx, builder.Session("demo").In(namespace).Obj(), builder.Turn("demo-1").In(namespace).Obj())
		answered(ctx, namespace)
		clients, err := kubernetes.NewForConfig(server.Config)
		Expect(err).NotTo(HaveOccurred())
		token := func(account string, audiences ...string) *rest.Config {
			request, err := clients.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account,
				&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}},
				metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			return &rest.Config{BearerToken: request.Status.Token}
		}
		for _, name := range []string{"reader", "stranger"} {
			create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
		}
		mayFollow(ctx, namespace, rbacv1.Subject{Kind: "ServiceAccount", Namespace: namespace, Name: "reader"})
		for _, as := range []*rest.Config{token("reader", "capstan.dev"), token("reader")} {
			ids, _ := follow(ctx, namespace, as, func(string) {})
			Expect(ids).To(Equal(journaled(ctx, namespace)))
		}
		refused := func(as *rest.Config) error {
			place.as = as
			client := &streamclient.Client{Endpoints: place}
			for _, err := range client.Follow(ctx, stream.Session{Namespace: namespace, Name: "demo"}, 0) {
				return err
			}
			return errors.New("the stream has no event and no error")
		}
		Expect(apierrors.IsUnauthorized(refused(token("reader", "other")))).To(BeTrue())
		Expect(apierrors.IsUnauthorized(refused(&rest.Config{}))).To(BeTrue())
		Expect(apierrors.IsForbidden(refused(token("stranger", "capstan.dev")))).To(BeTrue())
		Expect(apierrors.IsForbidden(refused(server.User("bob").Config()))).To(BeTrue())
	})

	It("is found by its ConfigMap, with a token for it alone where the user may ask for one", func(ctx context.Context) {
		serve()
		namespace := newNamespace(ctx, builder.Script("Hello."))
		create(ctx, builder.Session("demo").In(namespace).Obj(), builder.Turn("demo-1").In(namespace).Obj())
		answered(ctx, namespace)
		follows := func(as *rest.Config, install string) (ids []string, err error) {
			client, err := streamclient.New(as, install)
			Expect(err).NotTo(HaveOccurred())
			for e, err := range client.Follow(ctx, stream.Session{Namespace: namespace, Name: "demo"}, 0) {
				if err != nil {
					return ids, err
				}
				if e.Type == stream.TypeStreamSynced {
					break
				}
				ids = append(ids, e.ID)
			}
			return ids, nil
		}
		unreachable := func(err error) {
			GinkgoHelper()
			var reported *streamclient.UnreachableError
			Expect(errors.As(err, &reported)).To(BeTrue(), "%v", err)
		}
		install := suite.Namespace(ctx, kit.Client, "install-")
		_, err := follows(server.Config, install)
		unreachable(err)

		known := httptest.NewTLSServer(nil)
		defer known.Close()
		public := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: install, Name: "capstan-stream"}}
		public.Data = map[string]string{
			"address": place.address,
			"ca.crt":  string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: known.Certificate().Raw})),
		}
		create(ctx, public)
		want := journaled(ctx, namespace)
		dora := server.User("dora").Config()
		_, err = follows(dora, install)
		unreachable(err) // Not without the right to read the ConfigMap.
		mayFollow(ctx, namespace, rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: "dora"})
		meta := metav1.ObjectMeta{Namespace: install, Name: "address"}
		create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"capstan-stream"},
			Verbs: []string{"get"},
		}}}, &rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "address"},
			Subjects: []rbacv1.Subject{{Kind: "Group", APIGroup: rbacv1.GroupName, Name: "system:authenticated"}},
		})
		// The API server authorizes by the new rights a moment after they are written.
		Eventually(func() ([]string, error) { return follows(dora, install) }).Should(Equal(want))

		By("a ServiceAccount that may ask for a token of its own")
		create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "asker"}})
		clients, err := kubernetes.NewForConfig(server.Config)
		Expect(err).NotTo(HaveOccurred())
		token, err := clients.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, "asker",
			&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		asker := rest.AnonymousClientConfig(server.Config)
		asker.BearerToken = token.Status.Token
		subject := rbacv1.Subject{Kind: "ServiceAccount", Namespace: namespace, Name: "asker"}
		meta = metav1.ObjectMeta{Namespace: namespace, Name: "asker"}
		create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
			{
				APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: []string{"asker"},
				Verbs: []string{"create"},
			},
			{APIGroups: []string{"capstan.dev"}, Resources: []string{"sessions/events"}, Verbs: []string{"get"}},
		}}, &rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "asker"},
			Subjects: []rbacv1.Subject{subject},
		})
		Expect(follows(asker, install)).To(Equal(want))

		By("no user who impersonates another, or who may not forward a port where no address is configured")
		acting := rest.CopyConfig(server.Config)
		acting.Impersonate.UserName = "dora"
		_, err = follows(acting, install)
		unreachable(err)
		delete(public.Data, "address")
		Expect(kit.Client.Update(ctx, public)).To(Succeed())
		_, err = follows(dora, install)
		unreachable(err)
	})

	// writes are the requests of the manager that write to a namespace.
	writes := func(namespace string) (all []string) {
		paths.mu.Lock()
		defer paths.mu.Unlock()
		for _, request := range *paths.all {
			if strings.Contains(request, "/"+namespace+"/") && !strings.HasPrefix(request, http.MethodGet+" ") {
				all = append(all, request)
			}
		}
		return all
	}

	// Rules: CTX-04, TOOL-11.
	It("has what a tool writes to stderr while it runs, and costs no write", func(ctx context.Context) {
		serve()
		namespace := newNamespace(ctx, builder.Script("It is {{tool:work}}.", builder.Calls("work")),
			builder.JobTool("work", v1alpha1.SideEffectPure).Obj())
		mayFollow(ctx, namespace, rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: "eve"})
		lines := make(chan string, 1)
		jobs.In(namespace, func(call capstantest.Call) (stdout, stderr string, exit int) {
			for line := "begin\n"; ; {
				_, _ = io.WriteString(call.Stderr, line)
				select {
				case next, more := <-lines:
					if !more {
						return "12", "", 0
					}
					line = next
				case <-call.Context.Done():
					return "", "the test has failed", 1
				}
			}
		})
		create(ctx, builder.Session("demo").In(namespace).Obj(), builder.Turn("demo-1").In(namespace).Obj())

		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		place.as = server.User("eve").Config()
		client := &streamclient.Client{Endpoints: place}
		const deltas = 20
		var before []string
		output, seen, completed, ended := "", 0, false, false
		for e, err := range client.Follow(ctx, stream.Session{Namespace: namespace, Name: "demo"}, 0) {
			Expect(err).NotTo(HaveOccurred())
			switch e.Type {
			case stream.TypeToolOutputDelta:
				data, err := stream.Decode[stream.ToolOutputDelta](e)
				Expect(err).NotTo(HaveOccurred())
				Expect(completed).To(BeFalse(), "output comes before the result")
				Expect(e.Live).To(BeTrue())
				Expect(e.Turn.Name).To(Equal("demo-1"))
				Expect(data.ToolCallID + " " + data.ToolName + " " + data.Stream).To(Equal("1-0 work stderr"))
				Expect(data.Offset).To(BeEquivalentTo(len(output)))
				output += data.Delta
				switch seen++; {
				case seen == 1:
					before = writes(namespace)
					fallthrough
				case seen < deltas:
					lines <- fmt.Sprintf("line %d \x1b[2J\xff\n", seen)
				case seen == deltas:
					Expect(writes(namespace)).To(Equal(before))
					close(lines)
				}
			case stream.TypeToolCompleted:
				completed = true
			case stream.TypeSessionIdled:
				ended = true
			}
			if ended {
				break
			}
		}
		Expect(output).To(HavePrefix("begin\nline 1 \x1b[2J\uFFFD\nline 2"))
		Expect(output).To(HaveSuffix("line 19 \x1b[2J\uFFFD\n"))
		Expect(before).NotTo(BeEmpty())
		Expect(answered(ctx, namespace).Status.Output).To(Equal("It is 12."))
		journal, err := json.Marshal(journalOf(ctx, namespace))
		Expect(err).NotTo(HaveOccurred())
		Expect(string(journal)).NotTo(ContainSubstring("line 1"))
	})

	// Rules: LLM-04.
	It("goes on where it was when the manager is replaced in mid sentence", func(ctx context.Context) {
		stop := serve()
		namespace := newNamespace(ctx, words(20))
		mayFollow(ctx, namespace, rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: "carl"})
		create(ctx, builder.Session("demo").In(namespace).Obj(), builder.Turn("demo-1").In(namespace).Obj())
		replaced, again := false, 0
		ids, _ := follow(ctx, namespace, server.User("carl").Config(), func(text string) {
			switch {
			case !replaced && len(text) > 20:
				replaced = true
				stop()
				serve()
			case replaced && !strings.HasPrefix(text, strings.Repeat("word ", 6)):
				again++
			}
		})
		Expect(replaced).To(BeTrue())
		Expect(again).To(BeNumerically(">", 0), "the second manager has called the model again")
		Expect(ids).To(Equal(journaled(ctx, namespace)))
		Expect(ids).To(ContainElement(event.ID(answered(ctx, namespace).UID, 1, event.TypeTurnStarted, "")))
	})
})
