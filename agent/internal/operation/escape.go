package operation

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"gpuaas/contract/agentwire"
)

// render fills the places of a template. Each value becomes one scalar of the
// format, whatever is in it.
func render(w *agentwire.FileRenderWith, secret func(agentwire.Secret) (string, error)) ([]byte, error) {
	t, err := agentwire.ParseTemplate(w.Template)
	if err != nil {
		return nil, err
	}
	var out strings.Builder
	for i, text := range t.Texts {
		out.WriteString(text)
		if i == len(t.Names) {
			break
		}
		name := t.Names[i]
		var value any
		if handle, is := w.Secrets[name]; is {
			value, err = secret(handle)
		} else {
			err = json.Unmarshal(w.Values[name], &value)
		}
		if err != nil {
			return nil, fmt.Errorf("value %s: %w", name, err)
		}
		escaped, err := escape(w.Format, value, w.Values[name])
		if err != nil {
			return nil, fmt.Errorf("value %s cannot be written as %s: %w", name, w.Format, err)
		}
		out.WriteString(escaped)
	}
	if out.Len() > agentwire.MaxFileBytes {
		return nil, fmt.Errorf("the file would have more than %d bytes", agentwire.MaxFileBytes)
	}
	return []byte(out.String()), nil
}

// escape writes one scalar in a format. Numbers, true and false are the same in
// all of them.
func escape(format string, value any, raw json.RawMessage) (string, error) {
	text, is := value.(string)
	if !is {
		return string(raw), nil
	}
	if format == agentwire.FormatLines {
		if strings.IndexFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && breaksLines(r) }) >= 0 {
			return "", errors.New("it has a control character in it that is neither a line break nor a tab")
		}
		return text, nil
	}
	if strings.IndexFunc(text, breaksLines) >= 0 && format != "json" && format != "yaml" {
		return "", errors.New("it has a line break or another control character in it")
	}
	switch format {
	case "json", "yaml", "toml":
		quoted, err := json.Marshal(text)
		if err != nil {
			return "", fmt.Errorf("quote: %w", err)
		}
		// Go leaves these as they are, and YAML does not allow them.
		return strings.NewReplacer("\x7f", `\u007f`, "\u0085", `\u0085`, "\ufeff", `\ufeff`).Replace(string(quoted)), nil
	case "env":
		return `"` + strings.NewReplacer(`"`, `\"`, `\`, `\\`, `$`, `\$`, "`", "\\`").Replace(text) + `"`, nil
	case "ini":
		if text != strings.TrimSpace(text) || strings.HasSuffix(text, `\`) || strings.ContainsAny(text, `;#"'`) ||
			strings.HasPrefix(text, "[") {
			return "", errors.New("in this format a text cannot begin or end with a space, end with a backslash, begin " +
				"with [, or have ; # or quotes in it")
		}
		return text, nil
	case "systemd":
		if text == "" || strings.IndexFunc(text, unsafeInUnit) >= 0 {
			return "", errors.New("in this format a text consists of letters, digits and _ . , : / @ + = - %")
		}
		return strings.ReplaceAll(text, "%", "%%"), nil
	default:
		return text, nil
	}
}

func breaksLines(r rune) bool {
	return r < 0x20 || r == 0x7f || r == 0x85 || r == 0x2028 || r == 0x2029
}

func unsafeInUnit(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_.,:/@+=-%", r)
}
