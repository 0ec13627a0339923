package identity

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fixed is one key.
type fixed struct {
	key *Key
	err error
}

func (f fixed) Signing(context.Context) (*Key, error) { return f.key, f.err }

func newKey(t *testing.T, created time.Time) *Key {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := NewKey(private, created)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// published returns the public key of an id, as a verifier reads it from a key set.
func published(t *testing.T, ring Ring, id string) *ecdsa.PublicKey {
	t.Helper()
	raw, err := ring.KeySet()
	if err != nil {
		t.Fatal(err)
	}
	var set struct{ Keys []map[string]string }
	if err := json.Unmarshal(raw, &set); err != nil {
		t.Fatal(err)
	}
	for _, key := range set.Keys {
		if key["kid"] != id {
			continue
		}
		point := []byte{4}
		for _, name := range []string{"x", "y"} {
			raw, err := base64.RawURLEncoding.DecodeString(key[name])
			if err != nil || len(raw) != 32 {
				t.Fatalf("%s is %q", name, key[name])
			}
			point = append(point, raw...)
		}
		public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
		if err != nil {
			t.Fatal(err)
		}
		return public
	}
	return nil
}

// Rules: MCP-04.
func TestATokenIsForOneServerAndASubject(t *testing.T) {
	key := newKey(t, start)
	s := &Signer{Keys: fixed{key: key}, Issuer: "https://tokens.example.org", Clock: func() time.Time { return start }}
	token, err := s.Token(t.Context(), Subject{
		Namespace: "team", Agent: "triage", Harness: "base", Session: "demo", SessionUID: "uid", MCPServer: "github",
	}, "https://mcp.example.org:8443/github?key=hidden")
	if err != nil {
		t.Fatal(err)
	}
	verify := func(at time.Time, audience string) (jwt.MapClaims, error) {
		claims := jwt.MapClaims{}
		_, err := jwt.ParseWithClaims(token, claims, func(token *jwt.Token) (any, error) {
			id, _ := token.Header["kid"].(string)
			return published(t, Ring{newKey(t, start), key}, id), nil
		}, jwt.WithValidMethods([]string{"ES256"}), jwt.WithIssuer("https://tokens.example.org"), jwt.WithAudience(audience),
			jwt.WithExpirationRequired(), jwt.WithTimeFunc(func() time.Time { return at }))
		return claims, err
	}
	const audience = "https://mcp.example.org:8443/github"
	claims, err := verify(start.Add(time.Minute), audience)
	if err != nil || claims["sub"] != "capstan:agent:team:triage" {
		t.Errorf("the claims are %v, %v", claims, err)
	}
	about, err := json.Marshal(claims["capstan.dev"])
	if want := `{"agent":"triage","harness":"base","mcpServer":"github","namespace":"team",` +
		`"session":{"name":"demo","uid":"uid"}}`; err != nil || string(about) != want {
		t.Errorf("the token is about %s, want %s", about, want)
	}
	if _, err := verify(start.Add(Lifetime), audience); !errors.Is(err, jwt.ErrTokenExpired) {
		t.Errorf("after its lifetime: %v", err)
	}
	for _, other := range []string{
		"https://mcp.example.org:8443/", "https://mcp.example.org/github", "https://evil.example",
	} {
		if _, err := verify(start, other); !errors.Is(err, jwt.ErrTokenInvalidAudience) {
			t.Errorf("for %s: %v", other, err)
		}
	}
	for want, subject := range map[string]Subject{
		"capstan:harness:team:base":     {Namespace: "team", Harness: "base", MCPServer: "github"},
		"capstan:mcpserver:team:github": {Namespace: "team", MCPServer: "github"},
	} {
		if got := subject.String(); got != want {
			t.Errorf("the subject is %s, want %s", got, want)
		}
	}
}

func TestNoTokenIsSignedWithoutKeysOrForPlainHTTP(t *testing.T) {
	if _, err := (*Signer)(nil).Token(t.Context(), Subject{}, "https://mcp.example.org"); !errors.Is(err, ErrNoKeys) {
		t.Errorf("without a signer: %v", err)
	}
	s := &Signer{Keys: fixed{key: newKey(t, start)}, Clock: time.Now}
	for _, url := range []string{"http://mcp.example.org", "https:///x", "", "%"} {
		if token, err := s.Token(t.Context(), Subject{}, url); err == nil || token != "" {
			t.Errorf("%q: %v", url, err)
		}
	}
	s.Keys = fixed{err: ErrNoKeys}
	if _, err := s.Token(t.Context(), Subject{}, "https://mcp.example.org"); !errors.Is(err, ErrNoKeys) {
		t.Errorf("without keys: %v", err)
	}
}

// A verifier that reads the key set at any time can verify the tokens of the next Lead, and those signed before.
func TestKeysRotateWithOverlap(t *testing.T) {
	var ring Ring
	seen := map[string]bool{}
	type version struct {
		at  time.Time
		ids map[string]bool
	}
	var sets []version
	for now := start; now.Before(start.Add(4 * Period)); now = now.Add(6 * time.Hour) {
		next, changed, err := ring.Rotated(now)
		if err != nil {
			t.Fatal(err)
		}
		if changed != (len(next) != len(ring) || next[len(next)-1] != ring[len(ring)-1]) {
			t.Errorf("at %v: changed %v", now, changed)
		}
		raw, err := next.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if ring, err = Decode(raw); err != nil || len(ring) > 3 {
			t.Fatalf("at %v: %d keys, %v", now, len(ring), err)
		}
		ids := map[string]bool{}
		for _, key := range ring {
			ids[key.ID] = true
		}
		sets = append(sets, version{now, ids})
		signing := ring.Signing(now)
		seen[signing.ID] = true
		for _, set := range sets {
			if age := now.Sub(set.at); age < Lead && !set.ids[signing.ID] {
				t.Fatalf("at %v: the key that signs is not in the key set that is %v old", now, age)
			}
		}
		if age := now.Sub(signing.Created); age > Period+Lead+6*time.Hour {
			t.Fatalf("at %v: a key that is %v old signs", now, age)
		}
	}
	if len(seen) != 4 {
		t.Errorf("%d keys have signed", len(seen))
	}
	if Ring(nil).Signing(start) != nil {
		t.Error("no key signs")
	}
}

func TestDamagedKeysAreRefusedWithoutTheirContent(t *testing.T) {
	raw, err := Ring{newKey(t, start)}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, damaged := range []string{
		"", "{}", string(raw[:len(raw)-9]), `[{"pkcs8":"aGVsbG8="}]`, "[" + strings.Repeat("{},", 20) + "{}]",
	} {
		if ring, err := Decode([]byte(damaged)); err == nil || strings.Contains(err.Error(), "aGVsbG8") {
			t.Errorf("%.20q: %v, %v", damaged, ring, err)
		}
	}
	other, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewKey(other, start); err == nil {
		t.Error("a key of another curve signs")
	}
}

func TestTokensAreFoundInTexts(t *testing.T) {
	s := &Signer{Keys: fixed{key: newKey(t, start)}, Clock: func() time.Time { return start }}
	token, err := s.Token(t.Context(), Subject{Namespace: "team", Agent: "triage"}, "https://mcp.example.org")
	if err != nil {
		t.Fatal(err)
	}
	other := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": "another party"})
	foreign, err := other.SignedString([]byte("key"))
	if err != nil {
		t.Fatal(err)
	}
	unsigned := token[:strings.LastIndex(token, ".")]
	for text, want := range map[string]string{
		token:                             "*",
		"Bearer " + token + ".":           "Bearer *.",
		"a " + unsigned + " b":            "a * b",
		token + " " + token:               "* *",
		"eyJeyJ" + token:                  "eyJeyJ*",
		"eyJxeyJxx" + token:               "eyJxeyJxx*",
		"eyJ0." + token:                   "eyJ0.*",
		"\u00e9" + token:                  "\u00e9*",
		strings.Repeat("x", 600) + token:  strings.Repeat("x", 600) + "*",
		foreign:                           foreign,
		foreign + "," + token:             foreign + ",*",
		"eyJ":                             "eyJ",
		strings.Repeat("eyJ", 100) + ".x": strings.Repeat("eyJ", 100) + ".x",
	} {
		got, end := "", 0
		for _, place := range Find(text) {
			got += text[end:place[0]] + "*"
			end = place[1]
		}
		if got += text[end:]; got != want {
			t.Errorf("%.80q becomes %.80q", text, got)
		}
	}
	hostile := strings.Repeat(strings.Repeat("eyJ", 170)+"."+strings.Repeat("a", 16)+" ", 500)
	began := time.Now()
	if found := Find(hostile); found != nil || time.Since(began) > 2*time.Second {
		t.Errorf("%d tokens, after %v", len(found), time.Since(began))
	}
}

// A text takes about as long whatever it has: no character is decoded again and again.
func TestTextsOfAnyKindAreSearchedEquallyFast(t *testing.T) {
	const size = 4 << 20
	took := func(unit string) time.Duration {
		text := strings.Repeat(unit, size/len(unit))
		best := time.Duration(math.MaxInt64)
		for range 3 {
			began := time.Now()
			if found := Find(text); found != nil {
				t.Errorf("%d tokens", len(found))
			}
			best = min(best, time.Since(began))
		}
		return best
	}
	// Each character is looked at once, as part of what may follow a header.
	plain := took("eyJ." + strings.Repeat("a", 508))
	for name, unit := range map[string]string{
		"short headers":              strings.Repeat("eyJ", 6) + ".",
		"short headers and payloads": "eyJ." + strings.Repeat("a", minPayload),
		"long headers":               strings.Repeat("eyJ", 85) + "." + strings.Repeat("a", minPayload) + " ",
		"only headers":               strings.Repeat("eyJ", 170) + ".",
		"headers that are objects":   base64.RawURLEncoding.EncodeToString([]byte(`{"a":{"b":{"c":{"kid`)) + ".",
		"headers of the prefix": base64.RawURLEncoding.EncodeToString(
			[]byte(`{"a`+strings.Repeat(`{"a`, 50)+keyPrefix)) + ".",
		"dots": "eyJ" + strings.Repeat(".", 509),
	} {
		if hostile := took(unit); hostile > 60*plain {
			t.Errorf("%s: %v, and %v for plain text", name, hostile, plain)
		}
	}
}
