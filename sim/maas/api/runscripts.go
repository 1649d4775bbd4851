package api

import _ "embed" // the program that deployed machines fetch

// runScriptsPath is where MAAS hands out the program that reports hardware. It
// needs no key, because a machine has none before it reports.
const runScriptsPath = "/MAAS/maas-run-scripts"

//go:embed maas-run-scripts
var runScripts string
