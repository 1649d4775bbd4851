package redact_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"gpuaas/controlplane/internal/base/redact"
)

func TestNoFormattingShowsTheSecret(t *testing.T) {
	const plain = "hunter2-canary"
	s := redact.New(plain)
	holder := struct {
		Name   string
		Secret redact.Secret
	}{"x", s}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T %v"} {
		if strings.HasPrefix(verb, "%T") {
			fmt.Fprintf(&out, verb+"\n", s, s)
			continue
		}
		fmt.Fprintf(&out, verb+"\n", s)
		fmt.Fprintf(&out, verb+"\n", holder)
		fmt.Fprintf(&out, verb+"\n", &holder)
	}
	fmt.Fprintln(&out, s, &s, []redact.Secret{s}, map[string]redact.Secret{"k": s})
	for _, h := range []slog.Handler{slog.NewJSONHandler(&out, nil), slog.NewTextHandler(&out, nil)} {
		slog.New(h).Info("m", "secret", s, "holder", holder)
	}
	for _, encode := range []func(any) ([]byte, error){json.Marshal, yaml.Marshal} {
		b, err := encode(holder)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(b)
	}
	for _, form := range []string{plain, fmt.Sprintf("%x", plain), fmt.Sprintf("%X", plain)} {
		if strings.Contains(out.String(), form) {
			t.Fatalf("secret shown as %q in:\n%s", form, out.String())
		}
	}
	if !strings.Contains(out.String(), redact.Placeholder) {
		t.Fatal("placeholder missing")
	}
	if s.Reveal() != plain {
		t.Fatal("Reveal lost the secret")
	}
}
