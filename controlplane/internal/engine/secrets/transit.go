package secrets

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"regexp"
	"strings"

	"github.com/openbao/openbao/api/v2"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/deploy/openbao"
)

const signingKeyType = "ed25519"

// signingKeyVersion is the only version that a key has here. A new signer gets
// a new key, so that nothing changes under a name.
const signingKeyVersion = "1"

var keyNameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,100}$`)

// CreateSigningKey makes an Ed25519 key that never leaves the engine, and
// returns its public half. If a key of this name exists, it returns that one.
func (e *Engine) CreateSigningKey(ctx context.Context, name string) ([]byte, error) {
	path, err := keyPath("keys", name)
	if err != nil {
		return nil, err
	}
	if _, err := e.write(ctx, "make signing key "+name, path, map[string]any{"type": signingKeyType}); err != nil {
		return nil, err
	}
	answer, err := e.read(ctx, "read signing key "+name, path)
	if err != nil {
		return nil, err
	}
	if kind := field(answer, "type"); kind != signingKeyType {
		return nil, fault.New(fault.Conflict, "signing_key_mismatch", "key %s of the secrets engine is of type %q, not %s",
			name, kind, signingKeyType)
	}
	return publicKey(answer, name)
}

// Sign asks the engine to sign a message with a key that CreateSigningKey made.
func (e *Engine) Sign(ctx context.Context, name string, message []byte) ([]byte, error) {
	path, err := keyPath("sign", name)
	if err != nil {
		return nil, err
	}
	answer, err := e.write(ctx, "sign with key "+name, path, map[string]any{
		"input": base64.StdEncoding.EncodeToString(message), "key_version": signingKeyVersion,
	})
	if err != nil {
		return nil, err
	}
	// The form is <engine>:v<version>:<base64>.
	text := field(answer, "signature")
	signature, err := base64.StdEncoding.DecodeString(text[strings.LastIndexByte(text, ':')+1:])
	if err != nil || len(signature) != ed25519.SignatureSize {
		return nil, malformedKey(name)
	}
	return signature, nil
}

func publicKey(answer *api.Secret, name string) ([]byte, error) {
	versions, _ := answer.Data["keys"].(map[string]any)
	first, _ := versions[signingKeyVersion].(map[string]any)
	text, _ := first["public_key"].(string)
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return nil, malformedKey(name)
	}
	return key, nil
}

func keyPath(operation, name string) (string, error) {
	if !keyNameForm.MatchString(name) {
		return "", fault.New(fault.Internal, "signing_key_name_invalid", "%q cannot name a signing key", name)
	}
	return openbao.TransitMount + "/" + operation + "/" + name, nil
}

func malformedKey(name string) error {
	return fault.New(fault.Internal, "secrets_answer_malformed",
		"the secrets engine answered about key %s in an unknown form", name)
}
