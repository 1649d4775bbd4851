import { money } from '../../ui/money'
import { budgetTone, marksOf, type Budget } from './budget'

const fill = { ok: 'bg-ok', warn: 'bg-warn', bad: 'bg-bad', idle: 'bg-idle', info: 'bg-info', accent: 'bg-accent' } as const

/** BudgetBar draws what is spent of a budget, with marks where it is told. */
export function BudgetBar({ budget: b }: { budget: Budget }) {
  const { filled, marks } = marksOf(b)
  return (
    <div className="flex w-full flex-col gap-1">
      <div role="meter" aria-label="Spent of the budget" aria-valuemin={0} aria-valuemax={100} aria-valuenow={Math.min(100, Math.max(0, b.spent_percent))} aria-valuetext={`${money(b.spent_minor, b.currency)} of ${money(b.amount_minor, b.currency)}, ${b.spent_percent} percent`} className="relative h-3 w-full rounded-sm bg-raised">
        <span aria-hidden className={`absolute inset-y-0 left-0 rounded-sm ${fill[budgetTone(b)]}`} style={{ width: `${filled}%` }} />
        {marks.map((m) => (
          <span key={m.percent} aria-hidden title={`${m.percent} %${m.told ? ', alert sent' : ''}`} className={`absolute -inset-y-0.5 w-0.5 ${m.told ? 'bg-ink' : 'bg-muted'}`} style={{ left: `calc(${m.at}% - 1px)` }} />
        ))}
      </div>
      <p className="text-xs text-muted">
        {b.alerts.length === 0 ? 'No alerts are set.' : `Alerts at ${b.alerts.join(', ')} %`}
        {b.alerts.length > 0 && (b.told.length === 0 ? '; none reached yet.' : `; reached this month: ${b.told.map((t) => t.percent).join(', ')} %.`)}
      </p>
    </div>
  )
}
