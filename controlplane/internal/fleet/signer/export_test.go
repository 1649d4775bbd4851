package signer

import "gpuaas/controlplane/internal/engine/postgres"

// FirstPage is the beginning of the list, for tests.
func FirstPage(limit int32) postgres.Slice[position] { return postgres.Slice[position]{Limit: limit} }
