package secrets_test

import (
	"testing"
	"time"

	"gpuaas/controlplane/internal/base/id"
)

func BenchmarkSign(b *testing.B) {
	e, name := open(b, nil), "bench-"+id.NewString()
	if _, err := e.CreateSigningKey(b.Context(), name); err != nil {
		b.Fatal(err)
	}
	message := make([]byte, 500)
	for b.Loop() {
		if _, err := e.Sign(b.Context(), name, message); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSignNodeCSR(b *testing.B) {
	e, csr, uri := open(b, nil), greedyRequest(b, p256(b)), nodeURI()
	for b.Loop() {
		if _, err := e.SignNodeCSR(b.Context(), csr, uri, time.Hour); err != nil {
			b.Fatal(err)
		}
	}
}
