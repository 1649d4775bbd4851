import { useQuery } from '@tanstack/react-query'
import { api, got, type Schemas } from '../../api/client'
import { useSearchState } from '../../app/location'
import { Badge, Loading } from '../../ui/basics'
import { ProblemNote } from '../../ui/problem'
import { span } from '../../ui/time'
import { words } from '../../ui/tone'

type Lifecycle = Schemas['LifecycleDescription']

/** Lifecycles is the states of each noun, what they mean and how one leads to another. */
export function Lifecycles() {
  const [search, change] = useSearchState()
  const list = useQuery({ queryKey: ['lifecycles'], queryFn: () => got(api.GET('/api/v1/lifecycles')), staleTime: Infinity })
  if (list.error && !list.data) return <ProblemNote error={list.error} onRetry={() => void list.refetch()} />
  if (!list.data) return <Loading what="lifecycles" />
  const shown = list.data.items.find((l) => l.noun === search.noun) ?? list.data.items[0]
  return (
    <div className="grid gap-4 lg:grid-cols-[13rem_minmax(0,1fr)]">
      <nav aria-label="Nouns">
        <ul className="flex flex-wrap gap-1 lg:flex-col">
          {list.data.items.map((l) => (
            <li key={l.noun}>
              <button type="button" aria-current={l === shown ? 'true' : undefined} onClick={() => change({ noun: l.noun })} className={`w-full rounded-md px-2 py-1.5 text-left text-sm ${l === shown ? 'bg-accent-soft font-medium text-accent' : 'hover:bg-raised'}`}>
                {l.title}
              </button>
            </li>
          ))}
        </ul>
      </nav>
      {shown && <States of={shown} />}
    </div>
  )
}

function States({ of }: { of: Lifecycle }) {
  return (
    <section aria-label={of.title} className="flex flex-col gap-2">
      {(of.states ?? []).map((s) => {
        const out = (of.edges ?? []).filter((e) => e.from === s.name)
        return (
          <article key={s.name} id={`state-${s.name}`} className="rounded-lg border border-line bg-surface px-4 py-3">
            <h2 className="flex flex-wrap items-center gap-2 text-sm font-semibold">
              {words(s.name)} <span className="font-mono text-xs font-normal text-muted">{s.name}</span>
              {s.initial && <Badge tone="info">begins here</Badge>}
              {s.terminal && <Badge>ends here</Badge>}
              {s.stuck_after_seconds !== undefined && (
                <Badge tone="warn" title="After how long somebody should look">
                  stuck after {span(s.stuck_after_seconds)}
                </Badge>
              )}
            </h2>
            <p className="mt-1 text-sm">{s.meaning}</p>
            {out.length > 0 && (
              <ul className="mt-2 flex flex-col gap-1 text-sm">
                {out.map((e) => (
                  <li key={e.event + e.to} className="flex flex-wrap gap-x-2">
                    <span className="text-muted">{words(e.event)}</span>
                    <span aria-label="leads to">→</span>
                    <span className="font-medium">{words(e.to)}</span>
                    <span className="text-xs text-muted">by {e.owner}</span>
                  </li>
                ))}
              </ul>
            )}
          </article>
        )
      })}
    </section>
  )
}
