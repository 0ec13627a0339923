package token

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/capstan-dev/capstan/internal/runtime/backoff"
	"github.com/capstan-dev/capstan/internal/runtime/connection"
	"github.com/capstan-dev/capstan/internal/runtime/credential"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
)

const (
	// refreshTimeout is how long a token endpoint may take.
	refreshTimeout = 20 * time.Second
	// maxResponseBytes is how much of its response is read.
	maxResponseBytes = 64 << 10
	// maxPause is the longest pause that a token endpoint may request.
	maxPause = time.Hour
	// lifetime is how long a token is used that is issued without an expiry.
	lifetime = time.Hour
	// entryBytes is the memory of an entry beside its texts.
	entryBytes = 512
)

// pauses are those after failures of a token endpoint that requests no pause.
var pauses = backoff.Exponential{First: 5 * time.Second, Factor: 2, Longest: 5 * time.Minute}

// codes are the errors of the token endpoints of OAuth clients of the namespace that are repeated to users. Everything
// else that they respond is not: it may contain what they were sent.
var codes = []string{
	"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope",
	"access_denied",
}

// issued is what a token endpoint has issued for a connection, or why it has not.
type issued struct {
	token   string
	expires time.Time
	// refreshToken replaces that of the Secret; empty if the endpoint has issued no other one.
	refreshToken string
	// rejected is set when the endpoint does not accept the refresh token or the client.
	rejected *MissingError
	// failed is set after a failure that may be over by its time, after so many in a row.
	failed   *UnavailableError
	failures int
}

func (i issued) bytes() int64 { return int64(len(i.token)+len(i.refreshToken)) + entryBytes }

// usable reports whether the token is valid for a request that is sent now.
func (i issued) usable(now time.Time) bool { return i.token != "" && now.Before(i.expires) }

// refreshed returns an issued token, a kept one if there is one. Several callers share one request, which continues
// without them.
func (s *Source) refreshed(
	ctx context.Context, of connection.Of, c *connection.Connection, key string,
) (string, error) {
	if token, done, err := s.kept(of, key); done {
		return token, err
	}
	flight := s.flights.DoChan(key, func() (any, error) {
		if token, done, err := s.kept(of, key); done {
			return token, err
		}
		detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), refreshTimeout)
		defer cancel()
		return s.refresh(detached, of, c, key)
	})
	select {
	case result := <-flight:
		token, _ := result.Val.(string)
		return token, result.Err
	case <-ctx.Done():
		return "", fmt.Errorf("waiting for the token of the connection to %s: %w", of.Provider, ctx.Err())
	}
}

// kept returns what is known of a connection, and whether that is all for now.
func (s *Source) kept(of connection.Of, key string) (token string, done bool, err error) {
	known, _ := s.issued.Get(of.Namespace, key)
	now := s.clock()
	switch {
	case known.usable(now.Add(leeway)):
		return known.token, true, nil
	case known.rejected != nil:
		return "", true, known.rejected
	case known.failed == nil || !now.Before(known.failed.Until):
		return "", false, nil
	case known.usable(now):
		return known.token, true, nil
	default:
		return "", true, known.failed
	}
}

// refresh asks the token endpoint, and keeps what it responds.
func (s *Source) refresh(
	ctx context.Context, of connection.Of, c *connection.Connection, key string,
) (string, error) {
	known, _ := s.issued.Get(of.Namespace, key)
	to, err := url.Parse(c.Grant.TokenURL)
	if err != nil || to.Hostname() == "" || to.User != nil {
		return "", missing(of.Provider, "the %s of the connection to %q is not a valid https URL", connection.KeyTokenURL,
			of.Provider)
	}
	if c.Client != nil && c.Client != c.Secret {
		if why := credential.BoundElsewhere(c.Client, to); why != "" {
			return "", missing(of.Provider, "the token of the connection to %q cannot be refreshed: %s", of.Provider, why)
		}
	}
	from := issuer{of: of, to: to, own: c.Client == c.Secret}
	found, err := s.ask(ctx, from, c.Grant, known.refreshToken)
	now := s.clock()
	switch rejected, failed := (*MissingError)(nil), (*UnavailableError)(nil); {
	case err == nil && !valid(found.AccessToken):
		err = s.failed(of, key, known, &UnavailableError{
			Provider: of.Provider, Why: from.refusal("its token is not printable ASCII without spaces"),
		}, now)
	case err == nil:
		known = issued{token: found.AccessToken, expires: now.Add(lifetime), refreshToken: known.refreshToken}
		if !found.Expiry.IsZero() {
			known.expires = now.Add(time.Until(found.Expiry))
		}
		if found.RefreshToken != c.Grant.RefreshToken && valid(found.RefreshToken) {
			known.refreshToken = found.RefreshToken
		}
		s.issued.Keep(of.Namespace, key, known, known.bytes())
		return known.token, nil
	case errors.As(err, &rejected):
		s.issued.Keep(of.Namespace, key, issued{rejected: rejected}, entryBytes)
	case errors.As(err, &failed):
		err = s.failed(of, key, known, failed, now)
	}
	if known.usable(s.clock()) && !errors.As(err, new(*MissingError)) {
		return known.token, nil
	}
	return "", err
}

// failed keeps a failure that may be over later.
func (s *Source) failed(
	of connection.Of, key string, known issued, failure *UnavailableError, now time.Time,
) error {
	known.failures++
	pause := failure.Until.Sub(now)
	if failure.Until.IsZero() || pause <= 0 {
		pause = pauses.After(known.failures)
	}
	failure.Until = now.Add(min(pause, maxPause))
	known.failed = failure
	s.issued.Keep(of.Namespace, key, known, known.bytes())
	return failure
}

// issuer is a token endpoint that is asked for a connection.
type issuer struct {
	of connection.Of
	to *url.URL
	// own reports whether the user of the connection has chosen its address. Such a user may be one who may write neither
	// a Tool nor a Model: the request goes to public addresses only, and nothing is shown of how it ends.
	own bool
}

// route is how the endpoint is reached.
func (e issuer) route() egress.Route {
	if e.own {
		return egress.Route{Public: true}
	}
	return egress.Route{Namespace: e.of.Namespace}
}

// refusal is the message for users.
func (e issuer) refusal(why string) string {
	text := fmt.Sprintf("%s has issued no token for the connection of %s to %q", e.to.Hostname(), e.of.User, e.of.Provider)
	if e.own {
		return text
	}
	return text + ": " + why
}

// ask requests a token. The error is a *MissingError or an *UnavailableError.
func (s *Source) ask(ctx context.Context, e issuer, g *connection.Grant, rotated string) (*oauth2.Token, error) {
	ctx = context.WithValue(ctx, oauth2.HTTPClient, s.client(egress.TransportOptions{
		Hosts: []string{egress.Place(e.to)}, Route: e.route(), MaxBody: maxResponseBytes, Idle: refreshTimeout,
	}))
	style := oauth2.AuthStyleInHeader
	if g.InBody {
		style = oauth2.AuthStyleInParams
	}
	var found *oauth2.Token
	var err error
	if g.RefreshToken == "" {
		found, err = (&clientcredentials.Config{
			ClientID: g.ClientID, ClientSecret: g.ClientSecret, TokenURL: g.TokenURL, Scopes: g.Scopes, AuthStyle: style,
		}).Token(ctx)
	} else {
		refresh := g.RefreshToken
		if rotated != "" {
			refresh = rotated
		}
		found, err = (&oauth2.Config{
			ClientID: g.ClientID, ClientSecret: g.ClientSecret, Scopes: g.Scopes,
			Endpoint: oauth2.Endpoint{TokenURL: g.TokenURL, AuthStyle: style},
		}).TokenSource(ctx, &oauth2.Token{RefreshToken: refresh}).Token()
	}
	if err == nil {
		return found, nil
	}
	return nil, s.explain(e, err)
}

// explain returns the meaning of an error, without anything that the token endpoint has responded but a known code.
func (s *Source) explain(from issuer, err error) error {
	provided := from.of.Provider
	var own *egress.Error
	var refused *oauth2.RetrieveError
	switch {
	case errors.As(err, &own):
		return &UnavailableError{Provider: provided, Why: from.refusal(own.Text)}
	case !errors.As(err, &refused) || refused.Response == nil:
		return &UnavailableError{Provider: provided, Why: from.refusal("the response is not that of a token endpoint")}
	}
	status := refused.Response.StatusCode
	what := fmt.Sprintf("the response has status %d", status)
	if slices.Contains(codes, refused.ErrorCode) {
		what += " and the error " + refused.ErrorCode
	}
	passing := status >= http.StatusInternalServerError || status == http.StatusTooManyRequests ||
		status == http.StatusRequestTimeout
	if !passing && (status >= http.StatusBadRequest || slices.Contains(codes, refused.ErrorCode)) {
		return missing(provided, "%s", from.refusal(what))
	}
	e := &UnavailableError{Provider: provided, Why: from.refusal(what)}
	if pause := provider.RetryAfter(refused.Response.Header, s.clock()); pause > 0 {
		e.Until = s.clock().Add(pause)
	}
	return e
}

// valid reports whether a token can be sent in a header.
func valid(token string) bool {
	for _, c := range []byte(token) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return token != "" && len(token) <= connection.MaxTokenBytes
}
