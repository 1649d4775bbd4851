import type { ReactNode } from 'react'

/** Section is one list of several on a page, with how many are in it. */
export function Section({ title, count, more, children }: { title: string; count: number; more?: boolean; children: ReactNode }) {
  return (
    <section className="flex min-w-0 flex-col gap-2">
      <h2 className="text-sm font-semibold">
        {title} <span className="font-normal text-muted tabular-nums">{more ? `${count}+` : count}</span>
      </h2>
      {children}
    </section>
  )
}
