package blob

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"gpuaas/contract/agentwire"
)

// Access is how something is read that its source does not give to everybody.
type Access struct {
	Address string // a signed one; empty: that of the source
	Token   string // sent as a bearer token; empty: none
}

// Door gets access where a source refuses, or sends elsewhere, and keeps it until the
// source refuses it. Any number of transfers may go through one.
type Door struct {
	// Ask asks for access to one of the places. A *Error says what it means for the
	// transfer; any other error means that there is no access.
	Ask func(ctx context.Context, place string) (Access, error)
	// Places are what access is given to: a file by its address, or a repository by the
	// beginning of the addresses of what is in it.
	Places []string

	mu    sync.Mutex
	have  map[string]Access
	asked int
}

// mostAsked is how often access is asked for in one transfer: a source that gives it and
// takes it back at once is not asked for ever.
const mostAsked = 200

// place is the one that an address belongs to; empty: none. Access is for HTTPS only.
func (d *Door) place(source string) string {
	if d == nil || !strings.HasPrefix(source, "https://") {
		return ""
	}
	for _, p := range d.Places {
		if source == p || strings.HasPrefix(source, p+"/") {
			return p
		}
	}
	return ""
}

func (d *Door) known(place string) (Access, bool) {
	if place == "" {
		return Access{}, false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	a, is := d.have[place]
	return a, is
}

// open answers with other access than the one that was refused: with what somebody else
// got meanwhile, or with what is asked for now.
func (d *Door) open(ctx context.Context, place string, refused Access) (Access, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a, is := d.have[place]; is && a != refused {
		return a, nil
	}
	if d.asked++; d.asked > mostAsked {
		return Access{}, fmt.Errorf("the source took back %d times what it had given", mostAsked)
	}
	a, err := d.Ask(ctx, place)
	if err != nil {
		return a, err
	}
	if d.have == nil {
		d.have = map[string]Access{}
	}
	d.have[place] = a
	return a, nil
}

// get asks a source for something. One that refuses, or sends elsewhere, is asked once
// more with access to it, if somebody gives that.
func (w Want) get(ctx context.Context, client *http.Client, source string, with http.Header) (*http.Response, error) {
	place := w.Door.place(source)
	access, known := w.Door.known(place)
	if !known {
		access.Token = w.tokenFor(source)
	}
	answer, err := send(ctx, client, source, access, with)
	if err != nil || place == "" || !closed(answer.StatusCode, access) {
		return answer, err
	}
	if known && access.Address == "" && sentOn(answer) { // a registry that keeps its bytes elsewhere
		return onward(ctx, client, source, answer, with)
	}
	_, why := refused(source, answer)
	_ = answer.Body.Close() // its status is what counts
	if access, err = w.Door.open(ctx, place, access); err != nil {
		return nil, shut(source, why, err)
	}
	answer, err = send(ctx, client, source, access, with)
	if err == nil && access.Address == "" && sentOn(answer) {
		return onward(ctx, client, source, answer, with)
	}
	return answer, err
}

// shut tells what a source answered, and why there is no access to it.
func shut(source string, why, err error) error {
	if reason := reasonOf(err); reason != "" {
		return &Error{Reason: reason, Source: source, Cause: err}
	}
	return &Error{Reason: reasonOf(why), Source: source, Cause: fmt.Errorf("%w; no access to it was given: %w", why, err)}
}

// closed says whether an answer may be another one with access, or with other access: some
// stores call a signed address that ended a bad request.
func closed(status int, with Access) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden || moved(status) ||
		status == http.StatusBadRequest && with.Address != ""
}

func moved(status int) bool {
	switch status {
	case http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect,
		http.StatusMovedPermanently:
		return true
	}
	return false
}

// sentOn says whether an answer sends to an address with HTTPS.
func sentOn(answer *http.Response) bool {
	to, err := answer.Location()
	return moved(answer.StatusCode) && err == nil && to.Scheme == "https" && to.User == nil
}

// onward follows a registry once, without the token, which is for the registry alone. What
// comes is compared with its digest like everything else.
func onward(ctx context.Context, client *http.Client, source string, answer *http.Response, with http.Header) (
	*http.Response, error,
) {
	to, err := answer.Location()
	_ = answer.Body.Close() // where it sends is in its head
	if err != nil {
		return nil, failed(Redirected, source, "it sends to no address")
	}
	return send(ctx, client, source, Access{Address: to.String()}, with)
}

// send makes one request. Errors name the source and never the address that was signed.
func send(ctx context.Context, client *http.Client, source string, access Access, with http.Header) (
	*http.Response, error,
) {
	address := source
	if access.Address != "" {
		address = access.Address
		u, err := url.Parse(address)
		if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.Hostname() == agentwire.PlatformRegistry {
			return nil, failed(Denied, source, "the address that was given for it is not one with HTTPS, or is ours")
		}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, failed(Denied, source, "it is no address")
	}
	request.Header = with.Clone()
	request.Header.Set("Accept-Encoding", "identity")
	if access.Token != "" {
		request.Header.Set("Authorization", "Bearer "+access.Token)
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, unreachable(ctx, source, bare(err))
	}
	return answer, nil
}

// bare is why a request failed, without its address, which may be a secret.
func bare(err error) error {
	if u, is := err.(*url.Error); is { //nolint:errorlint // it is what a client returns, not something in it
		return fmt.Errorf("%s: %w", u.Op, u.Err)
	}
	return err
}
