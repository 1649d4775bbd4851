/** toMoment makes of what a date-time field holds, which is local time, what the contract wants; nothing of what is no time. */
export function toMoment(local: string | undefined): string | undefined {
  if (!local) return undefined
  const at = new Date(local)
  return Number.isNaN(at.getTime()) ? undefined : at.toISOString()
}
