package token

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/capstan-dev/capstan/internal/runtime/connection"
	"github.com/capstan-dev/capstan/internal/runtime/credential"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
)

const (
	// leeway is how long before its expiry a token is refreshed: a request takes time.
	leeway = time.Minute
	// maxKeptBytes is the memory of issued tokens. The namespace that has most of them makes room.
	maxKeptBytes = 4 << 20
)

// Source returns tokens of connections. It is safe for concurrent use.
type Source struct {
	secrets credential.Reader
	client  func(egress.TransportOptions) *http.Client
	clock   func() time.Time
	issued  *fairshare.Cache[string, issued]
	flights singleflight.Group
}

// NewSource returns a Source that reads Secrets and sends the requests to token endpoints.
func NewSource(secrets credential.Reader, client *egress.Client, clock func() time.Time) *Source {
	return &Source{
		secrets: secrets, client: client.HTTPClient, clock: clock, issued: fairshare.NewCache[string, issued](maxKeptBytes),
	}
}

// Token is the token of a connection.
type Token struct {
	// Value of the token.
	Value string
	// Secret of the connection, which binds the token to hosts.
	Secret *corev1.Secret
}

// Token returns the current token of a connection, and refreshes it if it has expired. The error is a *MissingError, an
// *UnavailableError, or that of reading a Secret.
func (s *Source) Token(ctx context.Context, of connection.Of) (Token, error) {
	c, key, err := s.read(ctx, of)
	if err != nil {
		return Token{}, err
	}
	now := s.clock()
	if c.Token != "" && (c.Expiry.IsZero() || now.Before(c.Expiry.Add(-leeway))) {
		return Token{c.Token, c.Secret}, nil
	}
	if c.Grant == nil {
		if now.Before(c.Expiry) {
			return Token{c.Token, c.Secret}, nil
		}
		return Token{}, missing(of.Provider, "the token of the connection to %q has expired", of.Provider)
	}
	value, err := s.refreshed(ctx, of, c, key)
	return Token{value, c.Secret}, err
}

// Check returns the error of Token as far as it is known without a request.
func (s *Source) Check(ctx context.Context, of connection.Of) error {
	_, key, err := s.read(ctx, of)
	if err != nil {
		return err
	}
	if kept, ok := s.issued.Get(of.Namespace, key); ok && kept.failed != nil && s.clock().Before(kept.failed.Until) {
		return kept.failed
	}
	return nil
}

// read reads a connection, and returns it with the key of what is issued for it.
func (s *Source) read(ctx context.Context, of connection.Of) (*connection.Connection, string, error) {
	name := connection.Name(of.Provider, of.User)
	secret, err := s.secrets(ctx, of.Namespace, name)
	if apierrors.IsNotFound(err) {
		e := missing(of.Provider, "%s has no connection to %q", of.User, of.Provider)
		e.None = true
		return nil, "", e
	}
	if err != nil {
		return nil, "", fmt.Errorf("reading Secret %s: %w", name, err)
	}
	c, err := connection.Parse(secret, of, func(client string) (*corev1.Secret, error) {
		found, err := s.secrets(ctx, of.Namespace, client)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading Secret %s: %w", client, err)
		}
		return found, nil
	})
	var unusable *connection.UnusableError
	if errors.As(err, &unusable) {
		return nil, "", missing(of.Provider, "the connection of %s to %q cannot be used: %s", of.User, of.Provider,
			unusable.Error())
	}
	if err != nil {
		return nil, "", err
	}
	return c, keyOf(c), nil
}

// keyOf identifies what is issued for a connection: another Secret, refresh token or client has another key. It reveals
// nothing of them.
func keyOf(c *connection.Connection) string {
	if c.Grant == nil {
		return ""
	}
	g, sum := c.Grant, sha256.New()
	for _, part := range []string{
		string(c.Secret.UID), g.RefreshToken, g.TokenURL, g.ClientID, g.ClientSecret, fmt.Sprint(g.InBody),
		strings.Join(g.Scopes, " "),
	} {
		_, _ = fmt.Fprintf(sum, "%d:%s", len(part), part) // a hash accepts everything
	}
	return hex.EncodeToString(sum.Sum(nil))
}
