package apiclient

import "net/http"

// Transport says what a client trusts and how it connects, for what is not part
// of the contract, such as a websocket.
func Transport(caFile string) (*http.Transport, error) { return newTransport(caFile) }
