package streaming

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
)

func TestRequestsAboutACallerCountForItsNamespaceOrForTheUser(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	for name, want := range map[string]string{
		"system:serviceaccount:team-a:bot":         "team-a",
		"system:serviceaccount:team-a:other":       "team-a",
		"system:serviceaccount:team-a:bot:more":    "",
		"system:serviceaccount:" + long + ":bot":   "",
		"system:serviceaccount:streams: users:bot": "",
		"system:serviceaccount::bot":               "",
		"jane":                                     "",
		long:                                       "",
		"":                                         "",
	} {
		got := shareOf(&user.DefaultInfo{Name: name})
		if want == "" && (!strings.HasPrefix(got, users) || len(got) > 64) || want != "" && got != want {
			t.Errorf("the share of %.60q is %q, want %q", name, got, want)
		}
	}
	if shareOf(&user.DefaultInfo{Name: "jane"}) == shareOf(&user.DefaultInfo{Name: "joe"}) {
		t.Error("two users have one share")
	}
}

// TestATokenWaitsAmongStrangersUntilItsReview: whatever it claims.
func TestATokenWaitsAmongStrangersUntilItsReview(t *testing.T) {
	var waited []string
	wait := func(_ context.Context, share string) error {
		waited = append(waited, share)
		return nil
	}
	const bot = "system:serviceaccount:team-a:bot"
	// The payload claims to be of team-b.
	claims := "e30." + "eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ6dGVhbS1iOmJvdCJ9" + ".e30"
	api := &apiServer{tokens: map[string]string{"capstan.dev own": bot, "capstan.dev " + claims: bot}}
	f := newFront(api, wait)
	for _, token := range []string{"unknown", "own", "own", claims} {
		_, _ = f.connect(t.Context(), token)
		f.forget()
	}
	want := []string{strangers, strangers, strangers, "team-a", "team-a", "team-a", strangers, "team-a"}
	if !slices.Equal(waited, want) {
		t.Errorf("reviews waited in the shares %q, want %q", waited, want)
	}
}

// front is what a request passes before it is served.
type front struct {
	tokens *Authenticator
	access *Authorizer
}

func newFront(api *apiServer, wait func(context.Context, string) error) *front {
	return &front{
		NewAuthenticator(Authenticator{Tokens: api, Clock: time.Now, Wait: wait}),
		NewAuthorizer(Authorizer{Reviews: accessReviews{api}, Wait: wait}),
	}
}

// connect returns how long the reviews of a caller take.
func (f *front) connect(ctx context.Context, token string) (time.Duration, error) {
	began := time.Now()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	r.Header.Set("Authorization", "Bearer "+token)
	caller, err := f.tokens.Authenticate(r)
	if err != nil {
		return 0, err
	}
	_, err = f.access.Allowed(ctx, caller, Action{Verb: "get", Subresource: "events", Namespace: "ns", Name: token})
	return time.Since(began), err
}

// forget lets reviews be made again, as when their time is over.
func (f *front) forget() {
	all := func(any) bool { return true }
	f.tokens.reviews.RemoveAll(all)
	f.access.decisions.RemoveAll(all)
}

// TestANamespaceWithAThousandTokensDelaysOnlyStrangers measures in the time of the test how long callers of other
// namespaces wait, at the standard limits, while a namespace that has minted 1000 valid tokens connects with all.
func TestANamespaceWithAThousandTokensDelaysOnlyStrangers(t *testing.T) {
	const many = 1000
	synctest.Test(t, func(t *testing.T) {
		api := &apiServer{tokens: map[string]string{
			"capstan.dev known": "system:serviceaccount:other:known", "capstan.dev jane": "jane",
			"capstan.dev first": "system:serviceaccount:other:first",
			"capstan.dev again": "system:serviceaccount:other:again",
		}}
		for i := range many {
			api.tokens[fmt.Sprint("capstan.dev minted-", i)] = fmt.Sprint("system:serviceaccount:many:", i%10)
		}
		rate := fairshare.NewRate(500, 1000, nil).Tenth()
		f := newFront(api, func(ctx context.Context, share string) error { return rate.Spend(ctx, share, 1) })
		connect := func(token string) time.Duration {
			took, err := f.connect(t.Context(), token)
			if err != nil {
				t.Error(err)
			}
			return took
		}
		flood := func(n int) {
			f.forget()
			for i := range n {
				go connect(fmt.Sprint("minted-", i))
			}
			synctest.Wait()
		}
		connect("known")
		connect("jane")
		// While its tokens were never seen, as many as the Server keeps connections whose caller is not known.
		<-time.After(time.Minute)
		flood(maxPending)
		stranger := make(chan time.Duration, 1)
		go func() { stranger <- connect("first") }()
		synctest.Wait()
		known, jane, first := connect("known"), connect("jane"), <-stranger
		t.Logf("beside tokens that were never seen: known %v, a user %v, a first connection %v", known, jane, first)
		if known > time.Second || jane > time.Second || first > reviewTimeout {
			t.Error("that is too long")
		}
		// All are known, as when it opens streams, which are reviewed again.
		flood(many)
		<-time.After(2 * time.Minute)
		flood(many)
		known, jane, first = connect("known"), connect("jane"), connect("again")
		t.Logf("beside tokens that are known: known %v, a user %v, a first connection %v", known, jane, first)
		if known > time.Second || jane > time.Second || first > time.Second {
			t.Error("that is too long")
		}
		<-time.After(2 * time.Minute)
	})
}
