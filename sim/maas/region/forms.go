package region

import (
	"net/url"
	"strings"
)

// wordBool reads a boolean parameter that must be one of certain words.
func wordBool(f url.Values, name string) (bool, error) {
	switch strings.ToLower(f.Get(name)) {
	case "", "false", "f", "no", "n", "off", "0":
		return false, nil
	case "true", "t", "yes", "y", "on", "1":
		return true, nil
	}
	return false, badRequest("Invalid %s: Value should be 'true' or 'false'", name)
}

// formBool reads a boolean of a form: anything but "false" and nothing is true,
// even "0".
func formBool(f url.Values, name string) bool {
	v := f.Get(name)
	return v != "" && !strings.EqualFold(v, "false")
}

func choice(name, value string) *RefusalError {
	return fieldError(name, "Select a valid choice. "+value+" is not one of the available choices.")
}
