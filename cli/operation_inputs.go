package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"gpuaas/cli/internal/failure"
	"gpuaas/cli/internal/frame"
	"gpuaas/contract/apiclient"
)

// inputValues reads what was typed as NAME=VALUE. A value that is JSON is taken as such,
// unless the definition wants a text there: 1.2 is a number to JSON and a version to
// whoever typed it.
func (f *runFlags) inputValues(s *session, operation string) (*map[string]any, error) {
	if len(f.inputs) == 0 {
		return nil, nil //nolint:nilnil // none were given
	}
	typed := map[string]string{}
	doubtful := false
	for _, pair := range f.inputs {
		key, value, found := strings.Cut(pair, "=")
		if !found || key == "" {
			return nil, failure.Misuse(s.Cmd, "--input %q must be NAME=VALUE", pair)
		}
		typed[key] = value
		_, text := inputValue(value).(string)
		doubtful = doubtful || !text
	}
	texts := map[string]bool{}
	if doubtful {
		var err error
		if texts, err = s.textInputs(operation); err != nil {
			return nil, err
		}
	}
	values := map[string]any{}
	for key, value := range typed {
		values[key] = inputValue(value)
		if _, text := values[key].(string); texts[key] && !text {
			values[key] = value
		}
	}
	return &values, nil
}

// inputValue is what was typed as JSON if it is, and as text otherwise.
func inputValue(typed string) any {
	var v any
	if json.Unmarshal([]byte(typed), &v) == nil {
		return v
	}
	return typed
}

// textInputs are the inputs of an operation that are texts, as its schema says.
func (s *session) textInputs(operation string) (map[string]bool, error) {
	entry, err := s.catalogEntry(operation)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(entry.Inputs)
	if err != nil {
		return nil, fmt.Errorf("read the inputs of %s: %w", operation, err)
	}
	var schema struct {
		Properties map[string]struct {
			Type any `json:"type"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(raw, &schema); err != nil {
		return nil, fmt.Errorf("read the inputs of %s: %w", operation, err)
	}
	texts := map[string]bool{}
	for name, p := range schema.Properties {
		texts[name] = p.Type == "string"
	}
	return texts, nil
}

// catalogEntry is the version that a run would take: the one that was named, or the
// newest active one.
func (s *session) catalogEntry(operation string) (apiclient.DefinitionCatalogView, error) {
	if strings.Contains(operation, "@") {
		return frame.Fetch[apiclient.DefinitionCatalogView](s.API.GetOperationCatalogEntryWithResponse(s.Ctx, operation))
	}
	page, err := frame.Fetch[apiclient.DefinitionCatalogViewList](s.API.ListOperationCatalogWithResponse(s.Ctx,
		&apiclient.ListOperationCatalogParams{Type: &operation}))
	if err != nil || len(page.Items) == 0 {
		return apiclient.DefinitionCatalogView{}, err // the run itself says that there is none
	}
	for _, v := range page.Items { // the newest first
		if v.Status == apiclient.DefinitionCatalogViewStatusActive {
			return v, nil
		}
	}
	return page.Items[0], nil
}
