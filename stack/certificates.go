package stack

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certificateLife is long because nothing renews the certificate of a running
// engine: a start replaces all of them once half of it is over.
const certificateLife = 5 * 365 * 24 * time.Hour

// certificates are how one engine and its clients recognise each other: their
// own CA in the state folder, whose key is thrown away as soon as it has
// signed, so that nobody can add certificates.
type certificates struct{ dir string }

func (c certificates) ca() string        { return filepath.Join(c.dir, "ca.pem") }
func (c certificates) server() string    { return filepath.Join(c.dir, "server.pem") }
func (c certificates) serverKey() string { return filepath.Join(c.dir, "server-key.pem") }
func (c certificates) client() string    { return filepath.Join(c.dir, "client.pem") }
func (c certificates) clientKey() string { return filepath.Join(c.dir, "client-key.pem") }

// ensure makes the certificates unless there is a complete set that is valid
// for long enough. It makes an incomplete set again.
func (c certificates) ensure(now time.Time) error {
	if c.goodAt(now.Add(certificateLife/2)) == nil {
		return nil
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return fmt.Errorf("make folder for certificates: %w", err)
	}
	if err := c.make(now); err != nil {
		return fmt.Errorf("make certificates in %s: %w", c.dir, err)
	}
	return nil
}

// goodAt says what keeps the set from working at that time.
func (c certificates) goodAt(then time.Time) error {
	ca, err := os.ReadFile(c.ca())
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return errors.New("no certificate in " + c.ca())
	}
	for _, pair := range []struct {
		cert, key string
		usage     x509.ExtKeyUsage
	}{
		{c.server(), c.serverKey(), x509.ExtKeyUsageServerAuth},
		{c.client(), c.clientKey(), x509.ExtKeyUsageClientAuth},
	} {
		loaded, err := tls.LoadX509KeyPair(pair.cert, pair.key)
		if err != nil {
			return err
		}
		_, err = loaded.Leaf.Verify(x509.VerifyOptions{
			Roots: roots, CurrentTime: then,
			KeyUsages: []x509.ExtKeyUsage{pair.usage},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (c certificates) make(now time.Time) error {
	base := x509.Certificate{
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certificateLife),
		KeyUsage: x509.KeyUsageDigitalSignature,
	}
	root := base
	root.Subject = pkix.Name{CommonName: "gpuaas embedded engines"}
	root.IsCA, root.BasicConstraintsValid, root.MaxPathLenZero, root.KeyUsage = true, true, true, x509.KeyUsageCertSign
	signer, err := newSigner(&root, nil, nil)
	if err != nil {
		return err
	}
	if err := writePEM(c.ca(), "CERTIFICATE", signer.der); err != nil {
		return err
	}
	server := base
	server.Subject = pkix.Name{CommonName: "engine"}
	server.DNSNames, server.IPAddresses = []string{"localhost"}, []net.IP{net.ParseIP(loopback)}
	// An engine also calls itself, as its own client.
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	client := base
	client.Subject = pkix.Name{CommonName: "control plane"}
	client.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return errors.Join(signer.write(&server, c.server(), c.serverKey()), signer.write(&client, c.client(), c.clientKey()))
}

// issued is a certificate with its key.
type issued struct {
	der    []byte
	parsed *x509.Certificate
	key    crypto.Signer
}

// newSigner makes a key and a certificate for it, signed by the parent. Without
// a parent it signs itself.
func newSigner(template, parent *x509.Certificate, with crypto.Signer) (*issued, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, err
	}
	if parent == nil {
		parent, with = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), with)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParseCertificate(der)
	return &issued{der: der, parsed: parsed, key: key}, err
}

func (i *issued) write(template *x509.Certificate, certFile, keyFile string) error {
	leaf, err := newSigner(template, i.parsed, i.key)
	if err != nil {
		return err
	}
	key, err := x509.MarshalPKCS8PrivateKey(leaf.key)
	if err != nil {
		return err
	}
	return errors.Join(writePEM(certFile, "CERTIFICATE", leaf.der), writePEM(keyFile, "PRIVATE KEY", key))
}

func writePEM(path, kind string, der []byte) error {
	return writeFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// ClientTLS is how a client of an embedded engine connects: with its own
// certificate, and only to that engine.
func ClientTLS(caFile, certFile, keyFile string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("read client certificate: %w", err)
	}
	ca, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("read CA: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("read CA: no certificate in %s", caFile)
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, Certificates: []tls.Certificate{pair}}, nil
}
