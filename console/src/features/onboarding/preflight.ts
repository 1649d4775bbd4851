import type { Schemas } from '../../api/client'

type Check = Schemas['OnboardingCheck']

type Part = Schemas['OnboardingPreflightView']

/**
 * wholePreflight asks part after part, because MAAS is asked about some machines at a
 * time. The checks of machines of all parts become one check of each name.
 */
export async function wholePreflight(ask: (from: number) => Promise<Part>, tell: (done: number, of: number) => void): Promise<{ ok: boolean; checks: Check[] }> {
  const checks = new Map<string, Check>()
  let from = 0
  for (;;) {
    const part = await ask(from)
    for (const c of part.checks) {
      const before = checks.get(c.name)
      checks.set(c.name, before ? joined(before, c) : c)
    }
    if (part.next_machine === undefined) break
    tell(part.looked_at, part.machines)
    from = part.next_machine
  }
  const all = [...checks.values()]
  return { ok: all.every((c) => c.ok), checks: all }
}

/** joined is what two parts found about the same thing; what is not well stays in view. */
function joined(a: Check, b: Check): Check {
  if (a.ok !== b.ok) return a.ok ? b : a
  if (a.detail === b.detail) return a
  const remedies = [...new Set([a.remedy, b.remedy].filter((r) => r !== undefined))]
  return { ...a, detail: `${a.detail}; ${b.detail}`, ...(remedies.length > 0 && { remedy: remedies.join('; ') }) }
}

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
