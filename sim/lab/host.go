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

// Where a machine has what hardware sync needs, and how soon after a start of
// its timer it reports.
const (
	syncCredentials = "/etc/maas/maas-machine-creds.yml" //nolint:gosec // the name of a file
	syncSoon        = 30 * time.Second
)

// host is an installed system that runs. Of a container it only knows where
// its sshd is; of others it is everything that is not the agent.
type host struct {
	lab      *Lab
	systemID string
	hostname string
	key      ssh.Signer
	login    rack.Login                              // that its payload made; zero: the one of the lab
	sshd     func(context.Context) (net.Conn, error) // nil: the lab answers in its place
	disk     disk
	again    func(context.Context) error // begins the first boot anew

	mu    sync.Mutex
	alive bool
	timer func() bool // stops what was scheduled; nil when nothing was
	seen  time.Time   // when the credentials that were last used were written
}

// newHost gives the machine the host key that its payload brings, else one of its
// own.
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
		l.log.Warn("machine does not take the host key of its payload", "machine", i.SystemID) // why may quote it
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
		return false // its first boot has not come that far, or it was locked
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

// on begins what a machine does by itself.
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

// restartTimer is systemd taking the timer up anew.
func (h *host) restartTimer() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.schedule(syncSoon)
}

// schedule replaces the next report. The lock is held.
func (h *host) schedule(in time.Duration) {
	if h.timer != nil {
		h.timer()
	}
	if h.alive && in > 0 {
		h.timer = h.lab.Clock().AfterFunc(in, func() { _ = h.report() }) // nobody hears of it, as with a unit that fails
	}
}

// report is what the service of hardware sync does: it tells MAAS, by the
// machine's own key, that the machine is there. The next one follows.
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

// lookAround restarts the timer when somebody has written other credentials, as
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

// seed is credentials that come over SSH; whoever brings them starts the timer.
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

// reseed is an agent that got the key of its machine to MAAS anew, and reports.
func (h *host) reseed() error {
	answer, err := h.lab.MachineToken(region.Caller{User: &region.User{Name: "admin", Admin: true}}, h.systemID)
	if err != nil {
		return err
	}
	token, ok := answer.(map[string]string)
	if !ok {
		return errors.New("MAAS has no key for the machine")
	}
	text := fmt.Sprintf("reporting:\n  maas:\n    endpoint: %q\n    consumer_key: %q\n    token_key: %q\n    token_secret: %q\n",
		h.lab.URL+"/metadata/status/"+h.systemID, token["consumer_key"], token["token_key"], token["token_secret"])
	if err := h.seed([]byte(text)); err != nil {
		return err
	}
	return h.report()
}

// signal is a report over the metadata service, less the connection.
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
		return errors.New("the credentials of hardware sync have another form") // they are secret
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
		return errors.New("MAAS does not accept the credentials of hardware sync") // its answer quotes them
	}
	return l.Signal(systemID, "OK")
}
