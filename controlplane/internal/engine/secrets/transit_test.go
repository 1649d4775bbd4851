package secrets_test

import (
	"bytes"
	"crypto/ed25519"
	"os"
	"strings"
	"testing"

	"github.com/openbao/openbao/api/v2"

	"gpuaas/controlplane/internal/base/fault"
	"gpuaas/controlplane/internal/base/id"
	"gpuaas/controlplane/internal/engine/secrets"
	"gpuaas/stack/stacktest"
)

func TestASignatureIsOneOfTheKey(t *testing.T) {
	e := open(t, nil)
	name, message := "test-"+id.NewString(), []byte("what is to be done")
	public, err := e.CreateSigningKey(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	again, err := e.CreateSigningKey(t.Context(), name)
	if err != nil || !bytes.Equal(public, again) {
		t.Fatalf("made anew: %x, %x, %v", public, again, err)
	}
	signature, err := e.Sign(t.Context(), name, message)
	if err != nil {
		t.Fatal(err)
	}
	if !ed25519.Verify(public, message, signature) {
		t.Error("the public key does not know the signature")
	}
	if ed25519.Verify(public, append(message, '!'), signature) {
		t.Error("the signature is good for another message")
	}
	other, err := e.CreateSigningKey(t.Context(), name+"-2")
	if err != nil || ed25519.Verify(other, message, signature) {
		t.Errorf("the signature is good for another key (%v)", err)
	}
}

// With its own login, the control plane can neither read the private half nor
// change the key under its name.
func TestASigningKeyStaysInTheEngine(t *testing.T) {
	name := "test-" + id.NewString()
	if _, err := open(t, nil).CreateSigningKey(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	c := loggedIn(t)
	for _, kind := range []string{"signing-key", "encryption-key", "hmac-key"} {
		if got, err := c.Logical().ReadWithContext(t.Context(), "gpuaas-transit/export/"+kind+"/"+name); err == nil {
			t.Errorf("export/%s: %v", kind, got)
		}
	}
	if got, err := c.Logical().ReadWithContext(t.Context(), "gpuaas-transit/backup/"+name); err == nil {
		t.Errorf("backup: %v", got)
	}
	for path, body := range map[string]map[string]any{
		"keys/" + name + "/config": {"exportable": true},
		"keys/" + name + "/rotate": {},
		"keys/" + name + "-open":   {"type": "ed25519", "exportable": true},
	} {
		if _, err := c.Logical().WriteWithContext(t.Context(), "gpuaas-transit/"+path, body); err == nil {
			t.Errorf("%s is allowed", path)
		}
	}
	key, err := c.Logical().ReadWithContext(t.Context(), "gpuaas-transit/keys/"+name)
	if err != nil || key.Data["exportable"] != false || key.Data["allow_plaintext_backup"] != false {
		t.Errorf("%v, %v", key, err)
	}
}

func loggedIn(t *testing.T) *api.Client {
	t.Helper()
	bao := stacktest.Bao(t)
	config := api.NewConfig()
	config.DisableEnvironment, config.Address, config.MaxRetries = true, bao.Address, 0
	c, err := api.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	body := map[string]any{}
	for field, file := range map[string]string{"role_id": bao.RoleIDFile, "secret_id": bao.SecretIDFile} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		body[field] = strings.TrimSpace(string(text))
	}
	login, err := c.Logical().WriteWithContext(t.Context(), "auth/approle/login", body)
	if err != nil {
		t.Fatal(err)
	}
	c.SetToken(login.Auth.ClientToken)
	return c
}

func TestSigningFailsClearly(t *testing.T) {
	e := open(t, nil)
	if _, err := e.Sign(t.Context(), "test-"+id.NewString(), []byte("x")); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("with a key that is not there: %v", err)
	}
	for _, name := range []string{"", "../keys/x", "a/b", "A", strings.Repeat("a", 200)} {
		_, signErr := e.Sign(t.Context(), name, []byte("x"))
		_, makeErr := e.CreateSigningKey(t.Context(), name)
		if fault.CodeOf(signErr) != "signing_key_name_invalid" || fault.CodeOf(makeErr) != "signing_key_name_invalid" {
			t.Errorf("%q: %v, %v", name, signErr, makeErr)
		}
	}
	away := open(t, func(c *secrets.Config) { c.Address = "http://127.0.0.1:1" })
	if _, err := away.Sign(t.Context(), "task", []byte("x")); fault.CodeOf(err) != "secrets_unavailable" {
		t.Errorf("without an engine: %v", err)
	}
}
