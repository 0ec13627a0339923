package streamclient

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

const (
	// DefaultNamespace is that of the manager in a standard installation.
	DefaultNamespace = "capstan-system"

	// published is the ConfigMap with the address and the authority, under these keys. It is the name of the Service too.
	published             = "capstan-stream"
	keyAuthority, keyHost = "ca.crt", "address"

	// audience is that of tokens which are of use at the manager alone.
	audience = "capstan.dev"
	// tokenLife is how long such a token is asked for, and tokenRest what is left of it when another one is.
	tokenLife, tokenRest = time.Hour, 10 * time.Minute
	// accountPrefix begins the names of users that are ServiceAccounts.
	accountPrefix = "system:serviceaccount:"
)

// New returns a Client for the user of a configuration. The manager's namespace is DefaultNamespace if it is empty.
func New(config *rest.Config, namespace string) (*Client, error) {
	if namespace == "" {
		namespace = DefaultNamespace
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating the client for the address of the manager: %w", err)
	}
	return &Client{Endpoints: &discovered{config: config, clients: clients, namespace: namespace}}, nil
}

// discovered finds the manager by its ConfigMap: at the address there, or by a forwarded port.
type discovered struct {
	config    *rest.Config
	clients   kubernetes.Interface
	namespace string

	forwards forwards

	mu sync.Mutex
	// account is the ServiceAccount that the user is; nil for another user, or if it may not ask for tokens. asked
	// reports whether that is known.
	account *[2]string
	asked   bool
	token   string
	expires time.Time
}

// Endpoint implements Endpoints.
func (d *discovered) Endpoint(ctx context.Context) (Endpoint, error) {
	if d.config.Impersonate.UserName != "" {
		return Endpoint{}, &UnreachableError{fmt.Errorf("it does not accept impersonation")}
	}
	public, err := d.clients.CoreV1().ConfigMaps(d.namespace).Get(ctx, published, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return Endpoint{}, &UnreachableError{err}
	}
	if err != nil {
		return Endpoint{}, fmt.Errorf("reading the address of the manager: %w", err)
	}
	host, name := public.Data[keyHost], ""
	if host == "" {
		if public.Data[keyAuthority] == "" {
			return Endpoint{}, &UnreachableError{fmt.Errorf("ConfigMap %s/%s has no address", d.namespace, published)}
		}
		if host, err = d.forwards.use(ctx, d.begin); err != nil {
			return Endpoint{}, err
		}
		name = published + "." + d.namespace + ".svc"
	}
	client, err := d.client(ctx, "https://"+host, name, public)
	if err != nil {
		return Endpoint{}, err
	}
	return Endpoint{URL: "https://" + host, Client: client}, nil
}

// client returns a client that trusts the manager's authority alone, with the credentials of the user.
func (d *discovered) client(ctx context.Context, at, name string, public *corev1.ConfigMap) (*http.Client, error) {
	own := rest.CopyConfig(d.config)
	own.Host, own.APIPath, own.Timeout = at, "", 0
	own.Username, own.Password = "", "" // The manager does not know it.
	own.Insecure, own.CAFile, own.CAData = false, "", []byte(public.Data[keyAuthority])
	own.ServerName, own.NextProtos = name, []string{"http/1.1"}
	if name != "" {
		// A forwarded port is local. The proxy is that of the API server.
		own.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	}
	if token := d.own(ctx); token != "" {
		own.BearerToken, own.BearerTokenFile, own.ExecProvider, own.AuthProvider = token, "", nil, nil
		own.CertFile, own.CertData, own.KeyFile, own.KeyData = "", nil, "", nil
	}
	transport, err := rest.TransportFor(own)
	if err != nil {
		return nil, fmt.Errorf("preparing the connection to the manager: %w", err)
	}
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}, nil
}

// own returns a token of the user for the manager alone, if it is a ServiceAccount that may ask for one; empty
// otherwise: the user's own credentials do as well.
func (d *discovered) own(ctx context.Context) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.asked {
		review, err := d.clients.AuthenticationV1().SelfSubjectReviews().Create(ctx,
			&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil {
			return ""
		}
		d.asked = true
		name, is := strings.CutPrefix(review.Status.UserInfo.Username, accountPrefix)
		if namespace, account, ok := strings.Cut(name, ":"); is && ok {
			d.account = &[2]string{namespace, account}
		}
	}
	if d.account == nil || time.Until(d.expires) > tokenRest {
		return d.token
	}
	request, err := d.clients.CoreV1().ServiceAccounts(d.account[0]).CreateToken(ctx, d.account[1],
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			Audiences: []string{audience}, ExpirationSeconds: ptr.To(int64(tokenLife / time.Second)),
		}}, metav1.CreateOptions{})
	if err != nil {
		if apierrors.IsForbidden(err) {
			d.account = nil
		}
		d.token = ""
		return ""
	}
	d.token, d.expires = request.Status.Token, request.Status.ExpirationTimestamp.Time
	return d.token
}
