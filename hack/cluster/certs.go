package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// certificateLife is long because nothing renews: a development cluster is thrown away long before.
const certificateLife = 10 * 365 * 24 * time.Hour

// authority signs the certificates of one cluster.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// identity is the content of a certificate about its holder.
type identity struct {
	// name and group are the user and group in Kubernetes.
	name, group string
	// hosts are the DNS names and addresses of a server; none makes it a client's certificate.
	hosts []string
}

func newAuthority(name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the authority's key: %w", err)
	}
	certificate, err := cert.NewSelfSignedCACert(cert.Config{CommonName: name}, key)
	if err != nil {
		return nil, fmt.Errorf("making the authority's certificate: %w", err)
	}
	return &authority{certificate: certificate, key: key}, nil
}

// issue returns a new certificate and its key, both in PEM.
func (a *authority) issue(id identity) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making the key of %s: %w", id.name, err)
	}
	template, err := certificateTemplate(id)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &private.PublicKey, a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("making the certificate of %s: %w", id.name, err)
	}
	key, err = keyutil.MarshalPrivateKeyToPEM(private)
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der}), key, err
}

func (a *authority) certificatePEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: a.certificate.Raw})
}

func certificateTemplate(id identity) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("making a serial number: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: id.name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(certificateLife),
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if id.group != "" {
		template.Subject.Organization = []string{id.group}
	}
	if len(id.hosts) > 0 {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	for _, host := range id.hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		template.DNSNames = append(template.DNSNames, host)
	}
	return template, nil
}

// identities are the holders of certificates in a cluster, by the file's name.
func (c *cluster) identities() map[string]identity {
	return map[string]identity{
		"apiserver": {name: "kube-apiserver", hosts: []string{
			"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
			"localhost", "127.0.0.1", c.serviceAddress().String(), c.gateway().String(),
		}},
		"apiserver-kubelet-client": {name: "kube-apiserver-kubelet-client", group: "system:masters"},
		"kubelet":                  {name: "kubelet", hosts: []string{c.Name, c.gateway().String()}},
		"kubelet-client":           {name: "system:node:" + c.Name, group: "system:nodes"},
		"controller-manager":       {name: "system:kube-controller-manager"},
		"scheduler":                {name: "system:kube-scheduler"},
	}
}

// writeCredentials makes the authority, all certificates, the key pair that signs service account tokens, and the token
// of the administrator, which it returns.
func (c *cluster) writeCredentials() (token string, err error) {
	ca, err := newAuthority(c.fullName())
	if err != nil {
		return "", err
	}
	caKey, err := keyutil.MarshalPrivateKeyToPEM(ca.key)
	if err != nil {
		return "", err
	}
	files := map[string][]byte{"ca.crt": ca.certificatePEM(), "ca.key": caKey}
	for name, id := range c.identities() {
		certificate, key, err := ca.issue(id)
		if err != nil {
			return "", err
		}
		files[name+".crt"], files[name+".key"] = certificate, key
	}
	if files["service-accounts.key"], files["service-accounts.pub"], err = signingKeys(); err != nil {
		return "", err
	}
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return "", fmt.Errorf("making the administrator's token: %w", err)
	}
	token = hex.EncodeToString(secret)
	files["tokens.csv"] = fmt.Appendf(nil, "%s,admin,admin,\"system:masters\"\n", token)
	for name, content := range files {
		if err := writeFile(c.path("pki", name), content, 0o600); err != nil {
			return "", err
		}
	}
	return token, nil
}

func signingKeys() (private, public []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making the service accounts' key: %w", err)
	}
	if private, err = keyutil.MarshalPrivateKeyToPEM(key); err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the service accounts' public key: %w", err)
	}
	return private, pem.EncodeToMemory(&pem.Block{Type: keyutil.PublicKeyBlockType, Bytes: der}), nil
}
