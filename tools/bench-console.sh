#!/usr/bin/env bash
# Measures the console in Chromium on this machine, everything included: first
# load, a fleet of 10,000 nodes, and a board of 1,000 onboardings at 10 events/s.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tools/install-deps.sh chromium
echo "== console, in $(chromium --version 2>/dev/null | cut -d' ' -f1-2) on these $(nproc) cores"
cd console && npx --no-install playwright test --config bench.config.ts --reporter line 2>&1 | grep -E '^  |passed|failed|Error' || exit 1
