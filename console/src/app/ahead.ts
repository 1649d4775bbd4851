/** What the address says after the question mark. */
export type Search = Record<string, string | undefined>

/** level is when nothing was changed that the address does not say. */
export const level: Search = {}

/** remaining is what was changed and the address does not say yet. */
export function remaining(ahead: Search, address: Search): Search {
  const left = Object.entries(ahead).filter(([name, value]) => (value || undefined) !== address[name])
  if (left.length === 0) return level
  return left.length === Object.keys(ahead).length ? ahead : Object.fromEntries(left)
}
