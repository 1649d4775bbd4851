package maas

import (
	"net/url"
	"strconv"

	"gpuaas/controlplane/internal/base/redact"
)

// form collects the parameters of a call. It always writes booleans as true and
// false: some forms of MAAS take any other text for true, even "0".
type form struct {
	values  url.Values
	secrets []string // values that no error may quote
}

func newForm() *form { return &form{values: url.Values{}} }

// text adds a value unless it is empty.
func (f *form) text(name, value string) *form {
	if value != "" {
		f.values.Set(name, value)
	}
	return f
}

// list adds a repeated value.
func (f *form) list(name string, values ...string) *form {
	for _, value := range values {
		f.values.Add(name, value)
	}
	return f
}

// flag adds a boolean, true or false.
func (f *form) flag(name string, value bool) *form {
	f.values.Set(name, strconv.FormatBool(value))
	return f
}

// option adds a boolean only if it is true.
func (f *form) option(name string, value bool) *form {
	if value {
		f.flag(name, true)
	}
	return f
}

// number adds a number unless it is zero.
func (f *form) number(name string, value int64) *form {
	if value != 0 {
		f.values.Set(name, strconv.FormatInt(value, 10))
	}
	return f
}

// secret adds a value that errors must not quote.
func (f *form) secret(name string, value redact.Secret) *form {
	if !value.IsZero() {
		f.values.Set(name, value.Reveal())
		f.secrets = append(f.secrets, value.Reveal())
	}
	return f
}
