package cli

import (
	"maps"
	"net/http"
	"os"
)

const (
	certificateID = "0190b2f4-7c1e-7d3a-8f5b-0000000000c2"

	certificateJSON = `{"certificate_id":"` + certificateID + `","kind":"certificate","node_id":"` + nodeID +
		`","hostname":"c07u31","decommission_id":"0190b2f4-7c1e-7d3a-8f5b-0000000000d2",` +
		`"mode":"full_decommission","outcome":"with_gaps","seq":2,"digest":"sha256:f8","previous_digest":"sha256:e3","key_id":"gpuaas-certificates-1","issued_at":"2026-03-04T05:06:07Z"}`

	// issued is where the files are that the contract itself is tested with.
	issued = "../contract/certificate/testdata/"
)

func issuedFile(name string) string {
	raw, err := os.ReadFile(issued + name)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// certificateAnswers are the answers about certificates.
func certificateAnswers(into map[string]http.HandlerFunc) map[string]http.HandlerFunc {
	maps.Copy(into, map[string]http.HandlerFunc{
		"list-certificates": pageOf(certificateJSON), "list-node-certificates": pageOf(certificateJSON),
		"get-certificate":       answer(200, issuedFile("certificate.json")),
		"list-certificate-keys": answer(200, issuedFile("keys.json")),
	})
	return into
}
