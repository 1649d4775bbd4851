import { inWords, type Part } from './usage'

/** ByDay draws what each day cost; in words it is on hover, and for those who do not see it. */
export function ByDay({ days }: { days: Part[] }) {
  const height = (p: Part) => Math.max(0, ...Object.values(p.net))
  const most = Math.max(1, ...days.map(height))
  return (
    <ol className="flex items-end gap-0.5" aria-label="Cost by day">
      {days.map((d) => (
        <li key={d.key} title={`${d.key}: ${inWords(d.net)}`} className="flex min-w-0 flex-1 flex-col justify-end">
          <span className="sr-only">
            {d.key}: {inWords(d.net)}
          </span>
          <span aria-hidden className="flex h-28 items-end">
            <span className={`w-full rounded-t-sm ${height(d) > 0 ? 'bg-accent' : 'bg-raised'}`} style={{ height: `${Math.max(2, (height(d) / most) * 100)}%` }} />
          </span>
          <span aria-hidden className="mt-1 overflow-hidden text-center text-[0.65rem] text-muted tabular-nums">
            {Number(d.key.slice(8))}
          </span>
        </li>
      ))}
    </ol>
  )
}
