package streamcert

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"
)

const (
	// authorityPeriod is how long an authority is the newest one, and lead how long its certificate is published before
	// it signs: clients read the ConfigMap when they connect.
	authorityPeriod, lead = 365 * 24 * time.Hour, 24 * time.Hour
	// authorityLife is how long the certificate of an authority is valid.
	authorityLife = 2 * authorityPeriod
	// servingLife is how long a serving certificate is valid, and servingRest what is left of it when it is replaced.
	servingLife, servingRest = 90 * 24 * time.Hour, 30 * 24 * time.Hour
	// skew is by how much clocks of clients may be behind.
	skew = 5 * time.Minute
	// maxAuthorities bounds those that are kept: the one that signs, and the next one.
	maxAuthorities = 2
)

// pair is a certificate with its key.
type pair struct {
	// Certificate and Key in DER form.
	Certificate []byte `json:"certificate"`
	Key         []byte `json:"key"`

	parsed *x509.Certificate
	key    *ecdsa.PrivateKey
}

// ring has the authorities, the oldest first, and the serving certificate.
type ring struct {
	Authorities []*pair `json:"authorities,omitempty"`
	Serving     *pair   `json:"serving,omitempty"`
}

// parseRing reads a ring; an empty text is an empty ring.
func parseRing(raw []byte) (ring, error) {
	var r ring
	if len(raw) == 0 {
		return r, nil
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return ring{}, errors.New("the content is not that of a manager")
	}
	all := slices.Clone(r.Authorities)
	if r.Serving != nil {
		all = append(all, r.Serving)
	}
	for _, p := range all {
		if p == nil || p.parse() != nil {
			return ring{}, errors.New("a certificate or its key cannot be read")
		}
	}
	return r, nil
}

func (p *pair) parse() (err error) {
	if p.parsed, err = x509.ParseCertificate(p.Certificate); err != nil {
		return fmt.Errorf("reading a certificate: %w", err)
	}
	if p.key, err = x509.ParseECPrivateKey(p.Key); err != nil {
		return errors.New("reading the key of a certificate") // The cause may quote the key.
	}
	return nil
}

// rotated returns the ring as it should be at a time, for a server of these names, and whether it has changed. An
// authority is published for a while before it signs, and until nothing signed by it is served.
func (r ring) rotated(now time.Time, names []string) (ring, bool, error) {
	next := ring{Authorities: slices.Clone(r.Authorities), Serving: r.Serving}
	changed := false
	next.Authorities = slices.DeleteFunc(next.Authorities, func(a *pair) bool {
		expired := !now.Before(a.parsed.NotAfter)
		changed = changed || expired
		return expired
	})
	if n := len(next.Authorities); n == 0 || !now.Before(since(next.Authorities[n-1]).Add(authorityPeriod)) {
		authority, err := newAuthority(now)
		if err != nil {
			return ring{}, false, err
		}
		next.Authorities, changed = append(next.Authorities, authority), true
	}
	signer := next.signer(now)
	if !next.Serving.serves(now, names, signer) {
		serving, err := signer.issue(now, names)
		if err != nil {
			return ring{}, false, err
		}
		next.Serving, changed = serving, true
	}
	for len(next.Authorities) > maxAuthorities || len(next.Authorities) > 1 && next.Authorities[0] != signer {
		next.Authorities, changed = next.Authorities[1:], true
	}
	return next, changed, nil
}

// signer is the newest authority that was published for long enough; the oldest one if none was.
func (r ring) signer(now time.Time) *pair {
	for _, a := range slices.Backward(r.Authorities) {
		if !now.Before(since(a).Add(lead)) {
			return a
		}
	}
	return r.Authorities[0]
}

// since is when an authority was made.
func since(a *pair) time.Time { return a.parsed.NotBefore.Add(skew) }

// due is when the ring changes next.
func (r ring) due() time.Time {
	newest := r.Authorities[len(r.Authorities)-1]
	due := r.Serving.parsed.NotAfter.Add(-servingRest)
	for _, at := range []time.Time{since(newest).Add(lead), since(newest).Add(authorityPeriod)} {
		if at.Before(due) && at.After(r.Serving.parsed.NotBefore.Add(skew)) {
			due = at
		}
	}
	return due
}

// serves reports whether a certificate can be served for a while: for the names, and signed by the authority.
func (p *pair) serves(now time.Time, names []string, by *pair) bool {
	if p == nil || !now.Before(p.parsed.NotAfter.Add(-servingRest)) || p.parsed.CheckSignatureFrom(by.parsed) != nil {
		return false
	}
	dns, addresses := split(names)
	return slices.Equal(p.parsed.DNSNames, dns) && slices.EqualFunc(p.parsed.IPAddresses, addresses, net.IP.Equal)
}

// split separates names of hosts from addresses.
func split(names []string) (dns []string, addresses []net.IP) {
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			addresses = append(addresses, ip)
		} else {
			dns = append(dns, name)
		}
	}
	return dns, addresses
}

func newAuthority(now time.Time) (*pair, error) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "capstan event streams"}, NotBefore: now.Add(-skew), NotAfter: now.Add(authorityLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	return sign(template, nil)
}

// issue returns a serving certificate.
func (p *pair) issue(now time.Time, names []string) (*pair, error) {
	dns, addresses := split(names)
	return sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "capstan"}, DNSNames: dns, IPAddresses: addresses, NotBefore: now.Add(-skew),
		NotAfter: now.Add(servingLife), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, p)
}

// sign signs a certificate with a new key by an authority; by itself without one.
func sign(template *x509.Certificate, by *pair) (*pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating the key of a certificate: %w", err)
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, fmt.Errorf("generating the number of a certificate: %w", err)
	}
	parent, signer := template, key
	if by != nil {
		parent, signer = by.parsed, by.key
	}
	p := &pair{}
	if p.Certificate, err = x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer); err != nil {
		return nil, fmt.Errorf("signing a certificate: %w", err)
	}
	if p.Key, err = x509.MarshalECPrivateKey(key); err != nil {
		return nil, fmt.Errorf("encoding the key of a certificate: %w", err)
	}
	return p, p.parse()
}

// certificate is the serving certificate for TLS.
func (r ring) certificate() *tls.Certificate {
	return &tls.Certificate{
		Certificate: [][]byte{r.Serving.Certificate}, PrivateKey: r.Serving.key, Leaf: r.Serving.parsed,
	}
}

// bundle are the certificates of the authorities in PEM form.
func (r ring) bundle() string {
	var b bytes.Buffer
	for _, a := range r.Authorities {
		_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate}) // A buffer takes everything.
	}
	return b.String()
}
