package identity

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// Lifetime of a token. Each request has one of its own, so that it need not outlive the request by much.
	Lifetime = 5 * time.Minute
	// DefaultIssuer is the issuer of tokens without another one.
	DefaultIssuer = "capstan"

	// KeysName is the name of the Secret with the keys, and of the ConfigMap with the key set.
	KeysName = "capstan-identity-keys"

	// algorithm is ECDSA on P-256 with SHA-256.
	algorithm = "ES256"
)

// Subject is who a token is about.
type Subject struct {
	// Namespace of all objects.
	Namespace string
	// Agent of the Session that calls; empty for a Session without one, which its Harness stands for.
	Agent, Harness string
	// Session that calls. Empty for the manager itself, which asks for the tools of the MCPServer.
	Session    string
	SessionUID types.UID
	// MCPServer that is called.
	MCPServer string
}

// String is the subject in tokens.
func (s Subject) String() string {
	switch {
	case s.Agent != "":
		return "capstan:agent:" + s.Namespace + ":" + s.Agent
	case s.Harness != "":
		return "capstan:harness:" + s.Namespace + ":" + s.Harness
	default:
		return "capstan:mcpserver:" + s.Namespace + ":" + s.MCPServer
	}
}

// claims of a token.
type claims struct {
	jwt.RegisteredClaims
	Capstan about `json:"capstan.dev"`
}

// about is what a token has besides the subject.
type about struct {
	Namespace string `json:"namespace"`
	Agent     string `json:"agent,omitempty"`
	Harness   string `json:"harness,omitempty"`
	Session   *named `json:"session,omitempty"`
	MCPServer string `json:"mcpServer,omitempty"`
}

type named struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
}

// Keys has the keys that sign tokens.
type Keys interface {
	// Signing returns the key that signs now. Its public part is published.
	Signing(ctx context.Context) (*Key, error)
}

// Fixed is one key, which is never replaced.
type Fixed struct{ Key *Key }

// Signing implements Keys.
func (f Fixed) Signing(context.Context) (*Key, error) { return f.Key, nil }

// ErrNoKeys reports a process that cannot sign, until a person changes that.
var ErrNoKeys = errors.New("the manager has no keys to sign identity tokens")

// Signer signs tokens. A nil Signer signs none.
type Signer struct {
	// Keys that sign.
	Keys Keys
	// Issuer of the tokens. Default DefaultIssuer.
	Issuer string
	// Clock returns the current time.
	Clock func() time.Time
}

// Token returns a token about a subject for the server at a URL, and for no other one. Its errors have nothing of the
// keys.
func (s *Signer) Token(ctx context.Context, subject Subject, serverURL string) (string, error) {
	if s == nil {
		return "", ErrNoKeys
	}
	audience, err := Audience(serverURL)
	if err != nil {
		return "", err
	}
	key, err := s.Keys.Signing(ctx)
	if err != nil {
		return "", fmt.Errorf("reading the keys of identity tokens: %w", err)
	}
	issuer, now := s.Issuer, s.Clock()
	if issuer == "" {
		issuer = DefaultIssuer
	}
	c := claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: issuer, Subject: subject.String(), Audience: jwt.ClaimStrings{audience}, ID: uuid.NewString(),
			IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(Lifetime)),
		},
		Capstan: about{
			Namespace: subject.Namespace, Agent: subject.Agent, Harness: subject.Harness, MCPServer: subject.MCPServer,
		},
	}
	if subject.Session != "" {
		c.Capstan.Session = &named{Name: subject.Session, UID: subject.SessionUID}
	}
	token := jwt.NewWithClaims(jwt.SigningMethodES256, c)
	token.Header["kid"] = key.ID
	signed, err := token.SignedString(key.Private)
	if err != nil {
		return "", fmt.Errorf("signing an identity token: %w", err)
	}
	return signed, nil
}

// Audience is the audience of tokens for the server at a URL: the URL without its query, which may be a secret.
func Audience(serverURL string) (string, error) {
	u, err := url.Parse(serverURL)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return "", errors.New("the url of the server is not https")
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String(), nil
}
