package apiclient

import "net/http"

// Transport is what a client trusts and how it connects, for what lies beside
// the contract, such as a websocket.
func Transport(caFile string) (*http.Transport, error) { return newTransport(caFile) }
