// Package depot is the way to the registry of the platform. The registry itself lets in
// nobody but this package, which decides who may push and pull what.
//
// People and programs come through the API with a token of theirs, as the password of the
// usual clients; their roles in the project that a repository belongs to decide. Nodes come
// through their own listener with their certificate, and need no other credential: a node
// reads a manifest or a blob exactly while a signed task that it works on fetches it. So
// what a node may read is bounded by digest, and nothing that could be stolen is handed
// out. Repositories are called TENANT/PROJECT/NAME, or platform.gpuaas/NAME.
//
// It must not decide who may fetch what in a run: policies and artifact do, before a task
// is signed.
package depot
