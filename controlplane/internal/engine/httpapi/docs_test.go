package httpapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"gpuaas/controlplane/internal/engine/auth"
	"gpuaas/controlplane/internal/engine/httpapi"
)

func TestDocsStayOnThisOrigin(t *testing.T) {
	f := inputFrame(t)
	page := f.call(t, http.MethodGet, "/docs", "", "").expect(t, 200, "")
	policy := page.header.Get("Content-Security-Policy")
	for _, bad := range []string{"unsafe", "http", "*"} {
		if strings.Contains(policy, bad) {
			t.Errorf("policy allows %s: %s", bad, policy)
		}
	}
	if strings.Contains(page.body, "http://") || strings.Contains(page.body, "https://") ||
		!strings.Contains(page.body, "<title>gpuaas</title>") {
		t.Errorf("page %s", page.body)
	}
	if regexp.MustCompile(`(?s)<script[^>]*>\s*\S+.*?</script>|<style|style=|onload=`).MatchString(
		strings.ReplaceAll(page.body, "></script>", "/>")) {
		t.Error("the page has inline code")
	}
	for _, link := range regexp.MustCompile(`(?:src|href)="([^"]+)"`).FindAllStringSubmatch(page.body, -1) {
		asset := f.call(t, http.MethodGet, link[1], "", "").expect(t, 200, "")
		if len(asset.body) == 0 || asset.header.Get("Content-Type") == "" ||
			asset.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d bytes of %q", link[1], len(asset.body), asset.header.Get("Content-Type"))
		}
	}
	f.call(t, http.MethodGet, "/docs/assets/", "", "").expect(t, 404, "not_found")
}

func TestContractIsServed(t *testing.T) {
	f := inputFrame(t)
	httpapi.Register(f.API, get("tenant", "/tenants/{org_id}", httpapi.Tenant(auth.TenantRead)),
		func(context.Context, *tenantInput) (*thingBody, error) { return nil, nil })
	f.Schema("NodeStatus", []string{"active", "retired"})
	if y := f.call(t, http.MethodGet, "/openapi.yaml", "", "").expect(t, 200, ""); !strings.HasPrefix(y.body,
		"components:") {
		t.Errorf("yaml starts %.40q", y.body)
	}
	var doc struct {
		OpenAPI    string
		Components struct {
			Schemas map[string]struct {
				Type       string
				Enum       []string
				Properties map[string]map[string]any
			}
			SecuritySchemes map[string]map[string]string
		}
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
			Access      string `json:"x-gpuaas-access"`
			Permission  string `json:"x-gpuaas-permission"`
			Security    []map[string][]string
			Responses   map[string]any
			Parameters  []struct {
				Name, In string
				Required bool
				Schema   map[string]any
			}
		}
	}
	raw := f.call(t, http.MethodGet, "/openapi.json", "", "").expect(t, 200, "").body
	if err := json.Unmarshal([]byte(raw), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.OpenAPI != "3.1.0" || doc.Components.SecuritySchemes["bearer"]["scheme"] != "bearer" {
		t.Errorf("%.300s", raw)
	}
	for _, name := range []string{"Problem", "FieldError", "Httpapi_testThing", "Httpapi_testThingList", "NodeStatus"} {
		if _, ok := doc.Components.Schemas[name]; !ok {
			t.Errorf("no schema %s in %.2000s", name, raw)
		}
	}
	if got := doc.Components.Schemas["Httpapi_testThing"].Properties["id"]["format"]; got != "uuid" {
		t.Errorf("an id has format %v", got)
	}
	tenant := doc.Paths["/tenants/{org_id}"]["get"]
	if tenant.Access != "tenant" || tenant.Permission != "tenant:read" || len(tenant.Security) != 1 {
		t.Errorf("tenant: %+v", tenant)
	}
	for _, status := range []string{"200", "401", "403", "404", "422", "429", "500", "503"} {
		if tenant.Responses[status] == nil {
			t.Errorf("tenant does not declare %s", status)
		}
	}
	params := func(method, path string) map[string]bool {
		out := map[string]bool{}
		for _, p := range doc.Paths[path][method].Parameters {
			out[p.In+" "+p.Name] = p.Required
		}
		return out
	}
	patch := params("patch", "/things/{id}")
	if !patch["header If-Match"] {
		t.Errorf("If-Match is not required: %v", patch)
	}
	if required, ok := patch["header Idempotency-Key"]; !ok || required {
		t.Errorf("Idempotency-Key: %v", patch)
	}
	if _, ok := params("get", "/things")["header Idempotency-Key"]; ok {
		t.Error("Idempotency-Key on a read")
	}
	for _, status := range []string{"409", "412", "413", "415", "428"} {
		if doc.Paths["/things/{id}"]["patch"].Responses[status] == nil {
			t.Errorf("patch does not declare %s", status)
		}
	}
}
