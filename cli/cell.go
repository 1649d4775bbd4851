package cli

import "encoding/json"

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// compact is JSON on one line, for a cell.
func compact(v any) string {
	if v == nil {
		return ""
	}
	b, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(b)
}

// text is the value of an optional string.
func text[S ~string](s *S) string {
	if s == nil {
		return ""
	}
	return string(*s)
}

// items is what an optional list holds.
func items[T any](list *[]T) []T {
	if list == nil {
		return nil
	}
	return *list
}
