package outbox_test

import (
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"gpuaas/contract/eventwire"
)

const contractFile = "../../../../contract/asyncapi.yaml"

// Every reference must resolve and every event must be there, otherwise tools
// that read the document fail far from here.
func TestAsyncAPIIsWhole(t *testing.T) {
	b, err := os.ReadFile(contractFile)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := yaml.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	for _, ref := range references(doc) {
		var at any = doc
		for _, step := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
			m, _ := at.(map[string]any)
			at = m[step]
		}
		if at == nil {
			t.Errorf("reference %s leads nowhere", ref)
		}
	}
	channels, _ := doc["channels"].(map[string]any)
	if len(channels) != len(eventwire.Events()) {
		t.Errorf("%d channels for %d events", len(channels), len(eventwire.Events()))
	}
}

func references(v any) []string {
	var out []string
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if s, ok := value.(string); ok && key == "$ref" {
				out = append(out, s)
			}
			out = append(out, references(value)...)
		}
	case []any:
		for _, value := range v {
			out = append(out, references(value)...)
		}
	}
	return out
}
