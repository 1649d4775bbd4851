package maas

import (
	"crypto/rand"
	"net/url"
	"strconv"
	"strings"
	"time"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/redact"
)

// apiKey holds the three parts of a MAAS API key.
type apiKey struct{ consumer, token, secret redact.Secret }

func parseKey(key redact.Secret) (apiKey, error) {
	parts := strings.Split(strings.TrimSpace(key.Reveal()), ":")
	for _, part := range parts {
		if len(parts) != 3 || part == "" || strings.ContainsFunc(part, func(r rune) bool {
			return r <= ' ' || r > '~' || strings.ContainsRune(`",%&=\`, r)
		}) {
			return apiKey{}, fault.New(fault.Invalid, CodeTokenMalformed,
				"the MAAS API key is not of the form consumer:token:secret").
				WithRemedy("copy the key from MAAS: user preferences, API keys")
		}
	}
	return apiKey{redact.New(parts[0]), redact.New(parts[1]), redact.New(parts[2])}, nil
}

// header signs one try of a request. MAAS remembers nonces, so a signature
// works only once.
func (k apiKey) header(now time.Time) string {
	return `OAuth oauth_version="1.0", oauth_signature_method="PLAINTEXT", oauth_consumer_key="` +
		url.QueryEscape(k.consumer.Reveal()) +
		`", oauth_token="` + url.QueryEscape(k.token.Reveal()) +
		`", oauth_signature="%26` + url.QueryEscape(k.secret.Reveal()) +
		`", oauth_nonce="` + rand.Text() +
		`", oauth_timestamp="` + strconv.FormatInt(now.Unix(), 10) + `"`
}

// words are the texts that must never be stored or shown.
func (k apiKey) words() []string {
	return []string{k.secret.Reveal(), k.token.Reveal(), k.consumer.Reveal()}
}
