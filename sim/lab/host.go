package lab

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"
	"golang.org/x/crypto/ssh"

	"gpuaas/sim/maas/region"
	"gpuaas/sim/rack"
)

// Where a machine keeps the files of hardware sync, and how soon after the
// start of its timer it reports.
const (
	syncCredentials = "/etc/maas/maas-machine-creds.yml" //nolint:gosec // the name of a file
	syncSoon        = 30 * time.Second
)

// host is an installed system that runs. For a container it only knows where
// its sshd is; for others it does everything except the agent.
type host struct {
	lab      *Lab
	systemID string
	hostname string
	key      ssh.Signer
	login    rack.Login                              // from its payload; zero: the login of the lab
	sshd     func(context.Context) (net.Conn, error) // nil: the lab answers instead
	disk     disk
	again    func(context.Context) error // begins the first boot again

	mu    sync.Mutex
	alive bool
	timer func() bool // stops what was scheduled; nil: nothing was
	seen  time.Time   // when the credentials that were last used were written
}

// newHost gives the machine the host key of its payload, or its own.
func newHost(l *Lab, i region.Installed) *host {
	h := &host{lab: l, systemID: i.SystemID, hostname: i.Hostname}
	// Such a key can always be used to sign.
	h.key, _ = ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(l.identity(i)))
	login, found, err := rack.ReadLogin(i.UserData)
	if err != nil || !found {
		return h
	}
	brought, err := ssh.ParsePrivateKey([]byte(login.HostKey))
	if err != nil {
		l.log.Warn("machine does not take the host key of its payload", "machine", i.SystemID) // the error may quote the key
		return h
	}
	h.key, h.login = brought, login
	return h
}

// opensTo says whether the account has a key now.
func (h *host) opensTo(user string, key ssh.PublicKey) bool {
	if h.login.User == "" || user != h.login.User || h.lab.shutOut(h.hostname) {
		return false
	}
	lines, err := h.disk.read(rack.KeysFile(user))
	if err != nil {
		return false // its first boot has not come that far, or the account was locked
	}
	for len(lines) > 0 {
		var known ssh.PublicKey
		if known, _, _, lines, err = ssh.ParseAuthorizedKey(lines); err != nil {
			return false
		}
		if bytes.Equal(known.Marshal(), key.Marshal()) {
			return true
		}
	}
	return false
}

// on starts what a machine does by itself.
func (h *host) on() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.alive = true; h.disk != nil {
		h.schedule(syncSoon)
	}
}

func (h *host) off() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.alive = false
	if h.timer != nil {
		h.timer()
	}
}

// restartTimer acts as systemd when it restarts the timer.
func (h *host) restartTimer() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.schedule(syncSoon)
}

// schedule replaces the next report. The lock must be held.
func (h *host) schedule(in time.Duration) {
	if h.timer != nil {
		h.timer()
	}
	if h.alive && in > 0 {
		h.timer = h.lab.Clock().AfterFunc(in, func() { _ = h.report() }) // nobody is told, as with a unit that fails
	}
}

// report does what the service of hardware sync does: it tells MAAS, with the
// machine's own key, that the machine is there. Then it schedules the next
// report.
func (h *host) report() error {
	b, known := h.lab.Brief(h.systemID)
	h.mu.Lock()
	alive := h.alive
	h.schedule(b.SyncInterval)
	h.mu.Unlock()
	if !alive || !known {
		return errors.New("the machine is off, or MAAS does not know it")
	}
	content, err := h.disk.read(syncCredentials)
	if err != nil {
		return err
	}
	return h.lab.signal(h.systemID, content)
}

// lookAround restarts the timer if somebody has written other credentials, as
// the agent does: its programs start the timer where the lab does not see it.
func (h *host) lookAround() {
	at, ok := h.disk.written(syncCredentials)
	h.mu.Lock()
	defer h.mu.Unlock()
	if ok && !at.Equal(h.seen) {
		h.schedule(syncSoon)
	}
	h.seen = at
}

// seed takes credentials that come over SSH. Whoever brings them starts the
// timer.
func (h *host) seed(credentials []byte) error {
	if err := h.disk.write(syncCredentials, credentials); err != nil {
		return err
	}
	at, _ := h.disk.written(syncCredentials)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen = at
	return nil
}

// reseed acts as an agent that got the key of its machine to MAAS again, and
// reports.
func (h *host) reseed() error {
	answer, err := h.lab.MachineToken(region.Caller{User: &region.User{Name: "admin", Admin: true}}, h.systemID)
	if err != nil {
		return err
	}
	token, ok := answer.(map[string]string)
	if !ok {
		return errors.New("MAAS has no key for the machine")
	}
	text := fmt.Sprintf("reporting:\n  maas:\n    endpoint: %q\n    consumer_key: %q\n    token_key: %q\n    "+
		"token_secret: %q\n",
		h.lab.URL+"/metadata/status/"+h.systemID, token["consumer_key"], token["token_key"], token["token_secret"])
	if err := h.seed([]byte(text)); err != nil {
		return err
	}
	return h.report()
}

// signal reports to the metadata service, but without a connection.
func (l *Lab) signal(systemID string, credentials []byte) error {
	var c struct {
		Reporting struct {
			MAAS struct {
				Endpoint    string `yaml:"endpoint"`
				ConsumerKey string `yaml:"consumer_key"`
				TokenKey    string `yaml:"token_key"`
				TokenSecret string `yaml:"token_secret"`
			} `yaml:"maas"`
		} `yaml:"reporting"`
	}
	if err := yaml.Unmarshal(credentials, &c); err != nil {
		return errors.New("the credentials of hardware sync have another form") // the text is secret
	}
	maas := c.Reporting.MAAS
	if maas.Endpoint != l.URL+"/metadata/status/"+systemID {
		return fmt.Errorf("the endpoint of hardware sync is not that of machine %s", systemID)
	}
	now := l.Clock().Now()
	caller, err := l.Authenticate(fmt.Sprintf(
		`OAuth oauth_signature_method="PLAINTEXT", oauth_consumer_key="%s", oauth_token="%s", oauth_signature="%%26%s", oauth_timestamp="%d", oauth_nonce="lab-%d"`,
		maas.ConsumerKey, maas.TokenKey, maas.TokenSecret, now.Unix(), l.nonces.Add(1)))
	if err != nil || caller.Machine != systemID {
		return errors.New("MAAS does not accept the credentials of hardware sync") // MAAS's answer quotes them
	}
	return l.Signal(systemID, "OK")
}
