package streaming

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/user"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
)

// Audience is the audience of tokens that are for this server alone. Tokens for the API server are accepted as well.
const Audience = "capstan.dev"

const (
	// keepReview is how long the outcome of a review counts for further connections, and for streams that are reviewed
	// again: by so much the review of a stream may be older than its interval.
	keepReview = 10 * time.Second
	// keepKnown is how long a valid token is reviewed apart from those that were never valid.
	keepKnown = time.Hour
	// maxReviews bounds the outcomes that are kept.
	maxReviews = 4096
	// maxTokenBytes bounds a token. Those of ServiceAccounts have about 1 KiB.
	maxTokenBytes = 16 << 10
)

// errUnauthenticated reports credentials that are missing or not valid.
var errUnauthenticated = errors.New("the credentials are missing or not valid: send a bearer token that the API " +
	"server accepts, or a client certificate")

// Caller is who is at the other end of a connection.
type Caller struct {
	user.Info
	// Until is when the credentials expire; zero if that is not known.
	Until time.Time
}

// Authenticator finds out who sends a request.
type Authenticator struct {
	// Tokens reviews tokens.
	Tokens authenticationclient.TokenReviewInterface
	// Certificates authenticates client certificates; nil if none are accepted.
	Certificates authenticator.Request
	// Wait waits until a request to the API server may be made in a share: that of the caller for a token that was valid
	// before, or that of strangers; nil for no bound.
	Wait func(ctx context.Context, share string) error
	// Clock returns the current time.
	Clock func() time.Time

	key            []byte
	reviews, known *utilcache.LRUExpireCache
}

// NewAuthenticator returns an Authenticator.
func NewAuthenticator(a Authenticator) *Authenticator {
	a.key = make([]byte, sha256.Size)
	_, _ = rand.Read(a.key) // It never fails.
	a.reviews, a.known = utilcache.NewLRUExpireCache(maxReviews), utilcache.NewLRUExpireCache(maxReviews)
	return &a
}

// Authenticate returns the caller of a request. The error is errUnauthenticated, or about the API server.
func (a *Authenticator) Authenticate(r *http.Request) (*Caller, error) {
	header := r.Header.Get("Authorization")
	if header == "" {
		return a.byCertificate(r)
	}
	scheme, token, _ := strings.Cut(header, " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > maxTokenBytes {
		return nil, errUnauthenticated
	}
	return a.byToken(r.Context(), token)
}

// byCertificate returns the caller with a client certificate, in the group of all who are authenticated, as the API
// server has it.
func (a *Authenticator) byCertificate(r *http.Request) (*Caller, error) {
	if a.Certificates == nil || r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, errUnauthenticated
	}
	response, ok, err := group.NewAuthenticatedGroupAdder(a.Certificates).AuthenticateRequest(r)
	if err != nil || !ok {
		return nil, errUnauthenticated
	}
	return &Caller{Info: response.User, Until: r.TLS.PeerCertificates[0].NotAfter}, nil
}

// byToken reviews a token, for the audience of this server first. Only a hash of it is kept, by a key of this process.
func (a *Authenticator) byToken(ctx context.Context, token string) (*Caller, error) {
	mac := hmac.New(sha256.New, a.key)
	mac.Write([]byte(token))
	key := string(mac.Sum(nil))
	if kept, ok := a.reviews.Get(key); ok {
		caller, _ := kept.(*Caller)
		if caller == nil || !caller.Until.IsZero() && !a.Clock().Before(caller.Until) {
			return nil, errUnauthenticated
		}
		return caller, nil
	}
	for _, audiences := range [][]string{{Audience}, nil} {
		share := strangers
		if known, ok := a.known.Get(key); ok {
			share, _ = known.(string)
		}
		caller, err := a.review(ctx, token, audiences, share)
		if err != nil {
			return nil, err
		}
		if caller != nil {
			a.reviews.Add(key, caller, keepReview)
			a.known.Add(key, shareOf(caller), keepKnown)
			return caller, nil
		}
	}
	a.reviews.Add(key, (*Caller)(nil), keepReview)
	return nil, errUnauthenticated
}

// review returns the caller with a token for one of the audiences, those of the API server without one; nil if it is
// not valid for them.
func (a *Authenticator) review(ctx context.Context, token string, audiences []string, share string) (*Caller, error) {
	if a.Wait != nil {
		if err := a.Wait(ctx, share); err != nil {
			return nil, fmt.Errorf("waiting to review a token: %w", err)
		}
	}
	review, err := a.Tokens.Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: audiences},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("reviewing a token: %w", err)
	}
	status := review.Status
	if !status.Authenticated || len(audiences) > 0 && !slices.Contains(status.Audiences, audiences[0]) {
		return nil, nil
	}
	extra := map[string][]string{}
	for key, values := range status.User.Extra {
		extra[key] = values
	}
	return &Caller{
		Info: &user.DefaultInfo{
			Name: status.User.Username, UID: status.User.UID, Groups: status.User.Groups, Extra: extra,
		},
		Until: expiry(token),
	}, nil
}

// expiry returns when a token expires that was found valid; zero if the token does not have it.
func expiry(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}
	}
	var claims struct {
		Expiry float64 `json:"exp"`
	}
	if json.Unmarshal(raw, &claims) != nil || claims.Expiry <= 0 || claims.Expiry > 1<<40 {
		return time.Time{}
	}
	return time.Unix(int64(claims.Expiry), 0)
}
