package streaming

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	x509request "k8s.io/apiserver/pkg/authentication/request/x509"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/feed"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/live"
)

// DefaultMaxSubscribers bounds the streams of a manager with the memory of a standard installation.
const DefaultMaxSubscribers = 1000

// Options are the settings of event streams.
type Options struct {
	// Listener accepts connections. Required.
	Listener net.Listener
	// Certificate returns the serving certificate. Required.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Bus has the live events. Required.
	Bus *live.Bus
	// Outputs has the output of running tool calls; nil for none.
	Outputs feed.Outputs
	// MaxSubscribers bounds the streams. Default: DefaultMaxSubscribers.
	MaxSubscribers int
	// Leader returns the address of the leader; nil without other replicas.
	Leader func(ctx context.Context) (string, error)
	// Rate bounds the requests to the API server for streams; nil for no bound.
	Rate *fairshare.Rate
	// Intervals of streams. Default: those of the documentation.
	Intervals Intervals
	// Resources are what Sessions have beside their events; nil to serve events alone.
	Resources Resources

	hub *feed.Hub
}

// OnEntry is that of the journal's options.
func (o *Options) OnEntry(session types.UID, ordinal int64) {
	if o.hub != nil {
		o.hub.Noticed(session, ordinal)
	}
}

// BeforeFollow is that of the journal's options.
func (o *Options) BeforeFollow(ctx context.Context, namespace string) error {
	return o.Rate.Spend(ctx, namespace, 1)
}

// SetUp adds the server of event streams to a manager.
func (o *Options) SetUp(ctx context.Context, mgr ctrl.Manager, log *journal.Log, clock func() time.Time) error {
	if o.Listener == nil || o.Certificate == nil || o.Bus == nil {
		return errors.New("setting up event streams: missing Listener, Certificate or Bus")
	}
	if o.MaxSubscribers == 0 {
		o.MaxSubscribers = DefaultMaxSubscribers
	}
	tokens, err := authenticationclient.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("creating the client for reviews of tokens: %w", err)
	}
	access, err := authorizationclient.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("creating the client for reviews of access: %w", err)
	}
	o.hub = feed.NewHub(feed.Options{
		Log: log, Bus: o.Bus, Outputs: o.Outputs, Limits: feed.LimitsOf(o.MaxSubscribers), Clock: clock,
	})
	if err := Wake(ctx, mgr.GetCache(), o.hub); err != nil {
		return err
	}
	// Tokens of strangers have a share of their own, so that many of them delay no caller who is known, and each namespace
	// and each user has another one.
	wait := func(ctx context.Context, share string) error { return o.Rate.Spend(ctx, share, 1) }
	authorities := &clientAuthorities{live: mgr.GetAPIReader(), clock: clock}
	logger := mgr.GetLogger().WithName("streams")
	handler := &Handler{
		Authenticator: NewAuthenticator(Authenticator{
			Tokens:       tokens.TokenReviews(),
			Certificates: x509request.NewDynamic(authorities.options, x509request.CommonNameUserConversion),
			Wait:         wait, Clock: clock,
		}),
		Authorizer: NewAuthorizer(Authorizer{Reviews: access.SubjectAccessReviews(), Wait: wait}),
		Sessions:   Cached{mgr.GetClient()}, Hub: o.hub, Clock: clock, Log: logger, Intervals: o.Intervals,
		Resources: o.Resources, Requests: NewRequests(), Spend: o.Rate.Spend,
	}
	mux := http.NewServeMux()
	handler.Register(mux)
	if err := mgr.Add(&Server{
		Listener: o.Listener, Handler: mux, Leads: mgr.Elected(), Leader: o.Leader, MaxPassed: 2 * o.MaxSubscribers,
		OnStop: o.hub.Close, Log: logger,
		TLS: &tls.Config{
			GetCertificate: o.Certificate, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12,
			NextProtos: []string{"http/1.1"},
		},
	}); err != nil {
		return fmt.Errorf("adding the server of event streams: %w", err)
	}
	return nil
}

const (
	// authoritiesNamespace and authoritiesName are where an API server publishes the authorities of client certificates.
	authoritiesNamespace, authoritiesName = "kube-system", "extension-apiserver-authentication"
	authoritiesKey                        = "client-ca-file"
	// keepAuthorities is how long they count, and keepNone how long that they cannot be read.
	keepAuthorities, keepNone = 5 * time.Minute, time.Minute
	authoritiesTimeout        = 5 * time.Second
)

// clientAuthorities are those whose client certificates the API server accepts. They are read when a certificate is
// sent.
type clientAuthorities struct {
	live  client.Reader
	clock func() time.Time

	mu    sync.Mutex
	pool  *x509.CertPool
	until time.Time
}

// options is a VerifyOptionFunc of the authenticator for certificates. Without authorities no certificate is valid.
func (c *clientAuthorities) options() (x509.VerifyOptions, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.clock(); !now.Before(c.until) {
		c.pool, c.until = c.read(), now.Add(keepAuthorities)
		if c.pool == nil {
			c.until = now.Add(keepNone)
		}
	}
	if c.pool == nil {
		return x509.VerifyOptions{}, false
	}
	return x509.VerifyOptions{Roots: c.pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, true
}

// read returns nil if there are no authorities, or if the manager may not read them.
func (c *clientAuthorities) read() *x509.CertPool {
	ctx, cancel := context.WithTimeout(context.Background(), authoritiesTimeout)
	defer cancel()
	public := &corev1.ConfigMap{}
	if c.live.Get(ctx, types.NamespacedName{Namespace: authoritiesNamespace, Name: authoritiesName}, public) != nil {
		return nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(public.Data[authoritiesKey])) {
		return nil
	}
	return pool
}
