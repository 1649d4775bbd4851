/** BatchProgress is how many of a batch reached their goal, and how many are parked. */
export function BatchProgress({ total, succeeded, failed }: { total: number; succeeded: number; failed: number }) {
  const all = Math.max(1, total)
  return (
    <span className="flex items-center gap-2">
      <span aria-hidden className="flex h-2 min-w-12 flex-1 overflow-hidden rounded-full bg-idle-soft">
        <span className="bg-ok" style={{ width: `${(100 * succeeded) / all}%` }} />
        <span className="bg-bad" style={{ width: `${(100 * failed) / all}%` }} />
      </span>
      <span className="tabular-nums">
        {succeeded} of {total}
      </span>
    </span>
  )
}
