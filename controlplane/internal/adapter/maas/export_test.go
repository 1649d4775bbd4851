package maas

import (
	"net/http"
	"reflect"
)

// MaxExamined is exported for tests.
const MaxExamined = maxExamined

// Sanitise is exported for tests.
func Sanitise(raw []byte, secrets ...string) string { return sanitise(raw, secrets...) }

// Judge is exported for tests.
func Judge(write bool, status int, h http.Header, body []byte, secrets ...string) error {
	k := call{method: http.MethodGet, path: "machines/abc/"}
	if write {
		k.method, k.op = http.MethodPost, "deploy"
	}
	return judge(k, answer{status: status, header: h, body: body}, secrets)
}

// DecodeMachine is exported for tests.
func DecodeMachine(body []byte) (Machine, error) {
	return machineOf(call{method: http.MethodGet, path: "machines/abc/"}, answer{status: http.StatusOK, body: body})
}

// Prune is exported for tests; it does not care how small the value is.
func Prune[T any](body []byte) []byte {
	p := pruner{src: body}
	p.value(shapeFor(reflect.TypeFor[T]()))
	p.space()
	if p.bad || p.at != len(body) {
		return body
	}
	return p.out
}
