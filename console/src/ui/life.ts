const units: Record<string, number> = { m: 60, h: 3600, d: 86_400, w: 604_800 }
const year = 366 * 86_400

/** The hint of a field that readLife reads. */
export const lifeHint = 'For example 12h, 7d or 30m. A number without a unit means hours.'

/** readLife reads a length of time as the command line does, such as 12h or 7d. Empty is none, and what cannot be is wrong. */
export function readLife(text: string, { least = 60, most = year }: { least?: number; most?: number } = {}): { seconds?: number; wrong?: string } {
  const typed = text.trim().toLowerCase()
  if (typed === '') return {}
  const [, number, unit = 'h'] = /^(\d+(?:\.\d+)?)\s*([mhdw])?$/.exec(typed) ?? []
  if (!number) return { wrong: lifeHint }
  const seconds = Math.round(Number(number) * (units[unit] ?? 3600))
  if (seconds < least) return { wrong: `At least ${writeLife(least)}.` }
  return seconds > most ? { wrong: `At most ${writeLife(most)}.` } : { seconds }
}

/** writeLife writes a length of time so that readLife reads it: in the largest unit that has it whole. */
export function writeLife(seconds: number): string {
  for (const unit of ['d', 'h', 'm']) {
    const size = units[unit] ?? 1
    if (seconds % size === 0) return `${seconds / size}${unit}`
  }
  return `${seconds / 60}m`
}
