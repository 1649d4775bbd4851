package cli

import (
	"maps"
	"net/http"
)

const (
	artifactID     = "0198c5f0-6f0a-7c3e-9d53-0a5f5be1a1f1"
	artifactKeyID  = "0198c5f0-6f0a-7c3e-9d53-0a5f5be1a1f2"
	artifactDigest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	artifactJSON   = `{"artifact_id":"` + artifactID + `","scope":"project","org_id":"` + orgID + `","project_id":"` +
		projectID + `","name":"llm","kind":"oci","source":"registry.example/acme/llm@` + artifactDigest + `","digest":"` +
		artifactDigest + `","size":5368709120,"media_type":"application/vnd.oci.image.index.v1+json",` +
		`"artifact_type":"application/vnd.example.model","layers":3,"platforms":[{"platform":"linux/amd64","digest":"` +
		artifactDigest + `","size":5368709120,"layers":3}],"labels":{"team":"nlp","tier":"gold"},"signature":{` +
		`"state":"verified","format":"sigstore_bundle","key_id":"` + artifactKeyID + `","checked_at":"2026-03-04T05:06:07Z"},` +
		`"status":"active","version":1,"created_at":"2026-03-04T05:06:07Z","created_by":"` + userID +
		`","updated_at":"2026-03-04T05:06:07Z","updated_by":"` + userID + `"}`
	artifactKeyJSON = `{"key_id":"` + artifactKeyID + `","scope":"tenant","name":"release","pem":"-----BEGIN PUBLIC KEY-----",` +
		`"fingerprint":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","algorithm":"ecdsa-p256",` +
		`"repositories":["registry.example/acme"],"not_before":"2026-03-04T05:06:07Z","not_after":"2027-03-04T05:06:07Z",` +
		`"created_at":"2026-03-04T05:06:07Z","created_by":"` + userID + `"}`
	artifactSourceID   = "0198c5f0-6f0a-7c3e-9d53-0a5f5be1a1f3"
	artifactSourceJSON = `{"source_id":"` + artifactSourceID + `","scope":"tenant","name":"harbor","kind":"registry",` +
		`"reach":"registry.example/acme","login":"puller","shared":true,"has_secret":true,"version":1,` +
		`"created_at":"2026-03-04T05:06:07Z","created_by":"` + userID + `","updated_at":"2026-03-04T05:06:07Z","updated_by":"` +
		userID + `"}`
	ofTraining = " --project acme/training"
)

var artifactErrands = []errand{
	{"artifact-register", "artifact register llm registry.example/acme/llm@" + artifactDigest + ofTraining +
		" --label team=nlp"},
	{"artifact-register-tenant", "artifact register w https://models.example/w --digest " + artifactDigest +
		" --size 7 --tenant acme"},
	{"artifact-register-global", "artifact register llm registry.example/llm@" + artifactDigest + " --global -o json"},
	{"artifact-register-nobody", "artifact register llm registry.example/llm@" + artifactDigest},
	{"artifact-push", "artifact push llm testdata/artifact/model" + ofTraining},
	{"artifact-push-global", "artifact push llm testdata/artifact/model/config.json --tag v1 --global"},
	{"artifact-push-tenant", "artifact push llm testdata/artifact/model --tenant acme"},
	{"artifact-push-missing", "artifact push llm testdata/artifact/none --global"},
	{"artifact-list", "artifact list" + ofTraining + " --name llm"},
	{"artifact-list-tenant", "artifact list --tenant acme"},
	{"artifact-list-global", "artifact list --global"},
	{"artifact-show", "artifact show llm" + ofTraining},
	{"artifact-show-tenant", "artifact show llm --tenant acme"},
	{"artifact-show-global", "artifact show " + artifactID + " --global"},
	{"artifact-show-missing", "artifact show gone --global"},
	{"artifact-verify", "artifact verify llm" + ofTraining},
	{"artifact-verify-tenant", "artifact verify llm --tenant acme"},
	{"artifact-verify-global", "artifact verify llm --global"},
	{"artifact-deprecate", "artifact deprecate llm --reason old" + ofTraining},
	{"artifact-deprecate-tenant", "artifact deprecate llm --reason old --tenant acme"},
	{"artifact-deprecate-global", "artifact deprecate llm --reason old --global"},
	{"artifact-revoke", "artifact revoke llm --reason poisoned" + ofTraining},
	{"artifact-revoke-tenant", "artifact revoke llm --reason poisoned --tenant acme"},
	{"artifact-revoke-global", "artifact revoke llm --reason poisoned --global"},
	{"artifact-retire", "artifact retire llm --reason unused" + ofTraining},
	{"artifact-retire-tenant", "artifact retire llm --reason unused --tenant acme"},
	{"artifact-retire-global", "artifact retire llm --reason unused --global"},
	{"artifact-key-add", "artifact key add release testdata/artifact/cosign.pub --tenant acme --repository " +
		"registry.example/acme --until 2027-03-04T05:06:07Z"},
	{"artifact-key-add-global", "artifact key add release testdata/artifact/cosign.pub --global --repository " +
		"registry.example --from 2026-03-04T05:06:07Z --until 2027-03-04T05:06:07Z"},
	{"artifact-key-add-never", "artifact key add release testdata/artifact/cosign.pub --global --repository r --until never"},
	{"artifact-key-list", "artifact key list --tenant acme"},
	{"artifact-key-list-global", "artifact key list --global"},
	{"artifact-key-list-nobody", "artifact key list"},
	{"artifact-key-withdraw", "artifact key withdraw " + artifactKeyID + " --tenant acme --reason leaked"},
	{"artifact-source-add", "artifact source add harbor registry.example/acme --tenant acme --login puller --secret-file " +
		"testdata/artifact/secret --shared"},
	{"artifact-source-add-global", "artifact source add bucket https://b.s3.eu-central-1.amazonaws.com --global --kind s3 " +
		"--region eu-central-1 --login AKIAEXAMPLE --secret-file testdata/artifact/secret -o json"},
	{"artifact-source-add-nobody", "artifact source add harbor registry.example/acme"},
	{"artifact-source-list", "artifact source list --tenant acme"},
	{"artifact-source-list-global", "artifact source list --global -o wide"},
	{"artifact-source-rotate", "artifact source rotate harbor --tenant acme --login puller --secret-file " +
		"testdata/artifact/secret"},
	{"artifact-source-rotate-global", "artifact source rotate harbor --global --secret-file " +
		"testdata/artifact/secret"},
	{"artifact-source-delete", "artifact source delete harbor --tenant acme"},
	{"artifact-source-delete-global", "artifact source delete harbor --global"},
	{"artifact-source-delete-missing", "artifact source delete gone --global"},
	{"artifact-key-withdraw-global", "artifact key withdraw " + artifactKeyID + " --global --reason leaked"},
}

// artifactAnswers are what the fake API says about artifacts.
func artifactAnswers(into map[string]http.HandlerFunc) map[string]http.HandlerFunc {
	for _, level := range []string{"global", "tenant", "project"} {
		maps.Copy(into, map[string]http.HandlerFunc{
			"register-" + level + "-artifact": answer(201, artifactJSON), "list-" + level + "-artifacts": pageOf(artifactJSON),
			"get-" + level + "-artifact": answer(200, artifactJSON), "verify-" + level + "-artifact": answer(200, artifactJSON),
			"move-" + level + "-artifact": answer(200, artifactJSON),
		})
	}
	for _, level := range []string{"global", "tenant"} {
		maps.Copy(into, map[string]http.HandlerFunc{
			"trust-" + level + "-artifact-key":     answer(201, artifactKeyJSON),
			"list-" + level + "-artifact-keys":     pageOf(artifactKeyJSON),
			"withdraw-" + level + "-artifact-key":  answer(200, artifactKeyJSON),
			"add-" + level + "-artifact-source":    answer(201, artifactSourceJSON),
			"list-" + level + "-artifact-sources":  pageOf(artifactSourceJSON),
			"rotate-" + level + "-artifact-source": answer(200, artifactSourceJSON),
			"delete-" + level + "-artifact-source": answer(204, ""),
		})
	}
	return into
}
