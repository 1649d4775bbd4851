package operation

import (
	"encoding/json"
	"fmt"
	"strings"
)

// clean makes text of an agent fit for a text column, and not longer than so many
// characters.
func clean(s string, most int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) <= most {
		return s // it has no more characters than bytes
	}
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return s
}

// several says how many there are of a thing.
func several[N int | int32 | int64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func decode(raw json.RawMessage, into any) error {
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	return nil
}
