package operation

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync"

	"gpuaas/contract/agentwire"
)

// hidden stands where a secret was.
const hidden = "[secret]"

// shortest is the length from which on a text is looked for. A shorter one is
// no secret, and would turn a log into nothing but marks.
const shortest = 4

// vault holds the secrets of one task. Whoever has a handle gets the secret;
// nothing that is written down holds either.
type vault struct {
	mu      sync.Mutex
	secrets map[agentwire.Secret][]byte
	forms   []string // every form in which a secret may appear, the longest first
}

func newVault() *vault { return &vault{secrets: map[agentwire.Secret][]byte{}} }

// keep stores a secret and returns its handle.
func (v *vault) keep(step, name, value string) agentwire.Secret {
	v.mu.Lock()
	defer v.mu.Unlock()
	handle := agentwire.Secret("secret:" + step + "/" + name)
	v.secrets[handle] = []byte(value)
	v.forms = append(v.forms, forms(value)...)
	slices.SortFunc(v.forms, func(a, b string) int { return len(b) - len(a) })
	v.forms = slices.Compact(v.forms)
	return handle
}

func (v *vault) open(handle agentwire.Secret) (string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	value, known := v.secrets[handle]
	if !known {
		return "", errors.New("there is no secret behind this handle: it was wiped, or another step minted it")
	}
	return string(value), nil
}

// redact takes every form of every secret out of a text.
func (v *vault) redact(text string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, f := range v.forms {
		text = strings.ReplaceAll(text, f, hidden)
	}
	return text
}

// wipe forgets the secrets.
func (v *vault) wipe() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, value := range v.secrets {
		clear(value)
	}
	clear(v.secrets)
}

// forms lists how a secret may be written: as it is, each of its lines, and
// encoded. Inside a longer text base64 begins at one of three places, so the
// part that is always the same is looked for.
func forms(secret string) []string {
	all := []string{}
	parts := append([]string{secret}, strings.Split(secret, "\n")...)
	for _, p := range parts {
		p = strings.TrimSpace(p)
		if len(p) < shortest {
			continue
		}
		quoted, err := json.Marshal(p)
		if err == nil {
			all = append(all, strings.Trim(string(quoted), `"`))
		}
		all = append(all, p, url.QueryEscape(p), url.PathEscape(p), hex.EncodeToString([]byte(p)),
			strings.ToUpper(hex.EncodeToString([]byte(p))))
		for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			for shift := range 3 {
				padded := e.EncodeToString(append(make([]byte, shift), p...))
				from, to := (shift*8+5)/6, len(padded)
				if (len(p)+shift)%3 != 0 {
					to-- // its last character depends on what follows
				}
				if to-from >= shortest {
					all = append(all, padded[from:to])
				}
			}
		}
	}
	return all
}
