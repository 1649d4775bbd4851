import type { Schemas } from '../../api/client'

type Check = Schemas['OnboardingCheck']

/** Told is one thing that a check found; with a machine when it is about one. */
export type Told = { hostname?: string; text: string }

/**
 * findings divides what a check found by machine. The control plane writes it as
 * one text, such as "c07u43: no credentials; c07u44: no credentials".
 */
export function findings(check: Check, hostnames: ReadonlySet<string>): Told[] {
  if (check.ok) return [{ text: check.detail }]
  return check.detail.split('; ').map((part) => {
    const hostname = part.split(/[\s:,"()]+/).find((word) => hostnames.has(word))
    if (!hostname) return { text: part }
    return { hostname, text: part.startsWith(`${hostname}: `) ? part.slice(hostname.length + 2) : part }
  })
}

/** blocked says which machines a preflight found something wrong with, and what. */
export function blocked(checks: Check[], hostnames: ReadonlySet<string>): Map<string, string[]> {
  const out = new Map<string, string[]>()
  for (const check of checks) {
    if (check.ok) continue
    for (const { hostname, text } of findings(check, hostnames)) {
      if (hostname) out.set(hostname, [...(out.get(hostname) ?? []), text])
    }
  }
  return out
}
