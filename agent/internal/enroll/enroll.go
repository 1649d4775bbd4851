package enroll

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gpuaas/agent/internal/atomicfile"
	"gpuaas/agent/internal/config"
	"gpuaas/agent/internal/transport"
	"gpuaas/contract/agentwire"
)

// Options of an enrolment.
type Options struct {
	Config       config.Config
	Build        agentwire.Build
	Session      string
	Capabilities agentwire.Capabilities
	Hardware     agentwire.Hardware
	Now          func() time.Time
	// Progress is told what Enroll waits for. It may be nil.
	Progress func(string)
	// BeforePoll runs with the new identity before the node is in service. It
	// may be nil. After the first poll somebody may be let in.
	BeforePoll func(ctx context.Context, client *transport.Client, id *Identity)
}

// Enroll turns a token into an identity. The first machine that comes with a
// token uses it up; the same machine may repeat the request until it has its
// answer. The node is enrolled when one poll with the new certificate has
// succeeded. Enroll returns a task that this poll brought; it must not be lost.
func Enroll(ctx context.Context, o Options, token string) (*Identity, *agentwire.Envelope, error) {
	s := NewStore(o.Config)
	roots, err := s.Roots()
	if err != nil {
		return nil, nil, err
	}
	instance, err := s.Instance()
	if err != nil {
		return nil, nil, err
	}
	key, err := s.nextKey()
	if err != nil {
		return nil, nil, err
	}
	csr, err := request(key)
	if err != nil {
		return nil, nil, err
	}
	client := transport.New(transport.Options{
		Base: o.Config.API, Roots: roots, Certificate: func() *tls.Certificate { return nil },
		Version: o.Build.Version, Instance: instance, Session: o.Session, Now: o.Now,
	})
	var answer agentwire.EnrollResponse
	err = o.insist(ctx, "ask for a certificate", func() (err error) {
		answer, err = client.Enroll(ctx, token, agentwire.EnrollRequest{
			CSR: csr, Hostname: hostname(o.Config), Instance: instance, Build: o.Build, Capabilities: o.Capabilities,
			Hardware: &o.Hardware,
		})
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("enrol: %w", err)
	}
	if c := o.Config.NodeID; c != "" && c != answer.NodeID {
		return nil, nil,
			fmt.Errorf("enrol: the token belongs to node %s and GPUAAS_NODE_ID says %s: use a token of this node", answer.NodeID,
				c)
	}
	if err := check(answer.Issued, answer.NodeID, "", answer.NodeCA, key); err != nil {
		return nil, nil, fmt.Errorf("enrol: %w", err)
	}
	if err := s.beginTrust(answer.Issued, client.Peer(), o.Now()); err != nil {
		return nil, nil, fmt.Errorf("enrol: %w", err)
	}
	if err := s.install(answer.Issued, answer.NodeCA, answer.Generation); err != nil {
		return nil, nil, fmt.Errorf("enrol: %w", err)
	}
	return o.firstPoll(ctx, s, instance)
}

func (o Options) firstPoll(ctx context.Context, s Store, instance string) (*Identity, *agentwire.Envelope, error) {
	id, err := s.Load()
	if err != nil {
		return nil, nil, err
	}
	trust, err := s.OpenTrust(id.Domain)
	if err != nil {
		return nil, nil, err
	}
	roots, err := s.Roots()
	if err != nil {
		return nil, nil, err
	}
	client := transport.New(transport.Options{
		Base: o.Config.API, Roots: roots, Certificate: func() *tls.Certificate { return id.Certificate }, Node: id.Node,
		Version: o.Build.Version, Instance: instance, Session: o.Session, Trust: trust.Header, Now: o.Now,
	})
	if o.BeforePoll != nil {
		o.BeforePoll(ctx, client, id)
	}
	var brought *agentwire.Envelope
	err = o.insist(ctx, "poll for the first time", func() (err error) {
		brought, err = client.Wait(ctx, agentwire.MinWaitSeconds*time.Second)
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("the node has a certificate, but its first poll failed: %w", err)
	}
	return id, brought, nil
}

// insist repeats what may succeed later, until the context ends.
func (o Options) insist(ctx context.Context, what string, try func() error) error {
	wait := transport.Backoff{First: time.Second, Most: 15 * time.Second}
	for {
		err := try()
		kind := transport.KindOf(err)
		if err == nil || kind != transport.Unreachable && kind != transport.Unavailable {
			return err
		}
		var failure *transport.Error
		pause := time.Duration(0)
		if errors.As(err, &failure) {
			pause = failure.RetryAfter
		}
		pause = wait.Next(pause)
		if o.Progress != nil {
			o.Progress(fmt.Sprintf("%s: %v; next try in %s", what, err, pause.Round(time.Second)))
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// Renew gets the next certificate with the present one and puts it into use.
// The certificate must come from the issuer that the node knows. Another
// issuer, and everything else to trust, is taken over only if a key that the
// node trusts has signed it. Renew returns what it refused together with the
// identity. If it refused the certificate itself, it returns no identity.
func (s Store) Renew(ctx context.Context, client *transport.Client, trust *Trust, now func() time.Time) (
	*Identity, error,
) {
	present, err := s.Load()
	if err != nil {
		return nil, err
	}
	key, err := s.nextKey()
	if err != nil {
		return nil, err
	}
	csr, err := request(key)
	if err != nil {
		return nil, err
	}
	issued, err := client.Renew(ctx, agentwire.RenewRequest{CSR: csr})
	if err != nil {
		return nil, fmt.Errorf("renew certificate: %w", err)
	}
	issuer, refused := trust.issuer(issued, present, key)
	if issuer == nil {
		return nil, errors.Join(fmt.Errorf("renew certificate: %w", refused), trust.note(refused, now()))
	}
	if err := s.install(issued, issuer.pem, present.Generation); err != nil {
		return nil, fmt.Errorf("renew certificate: %w", err)
	}
	id, err := s.Load()
	if err != nil {
		return nil, err
	}
	// The certificate is in use. Later failures must not hide that.
	late := trust.took(issuer)
	roots, refused := trust.takeRenewed(issued, present, refused, client.Peer(), now())
	client.Reload(roots)
	return id, errors.Join(late, refused)
}

// Instance tells machines apart: a copy of the disk in another machine is
// another instance. It reveals nothing about the machine itself.
func (s Store) Instance() (string, error) {
	install, err := os.ReadFile(s.c.InstallID())
	if errors.Is(err, fs.ErrNotExist) {
		install = []byte(rand.Text())
		err = atomicfile.Write(s.c.InstallID(), install, 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("read install id: %w", err)
	}
	sum := sha256.New()
	for _, part := range []string{
		"gpuaas-instance-v1", s.line("/etc/machine-id"),
		s.line("/sys/class/dmi/id/product_uuid"), strings.TrimSpace(string(install)),
	} {
		sum.Write([]byte(part + "\n"))
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// line returns the content of a small file. It is empty if there is none.
func (s Store) line(path string) string {
	raw, err := os.ReadFile(s.c.Path(path))
	if err != nil {
		return ""
	}
	return strings.ToLower(strings.TrimSpace(string(raw)))
}

func hostname(c config.Config) string {
	if filepath.Clean(c.Root) != "/" {
		if name := NewStore(c).line("/etc/hostname"); name != "" {
			return name
		}
	}
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}
