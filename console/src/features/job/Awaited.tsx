import type { ReactNode } from 'react'
import { Loading, Page, TextLink } from '../../ui/basics'
import type { Kind } from './job'
import { Outdated, type Read } from './Outdated'

type Props<T> = { kind: Kind; title?: string; what: string; of: Read & { data?: T }; also?: Read; children: (data: T, problem: ReactNode) => ReactNode }

/**
 * Awaited is a page of what has to be read first: until it is there, the page says so, or
 * why it is not. What is read also may fail by itself.
 */
export function Awaited<T>({ kind, title = kind.title, what, of, also, children }: Props<T>) {
  const problem = <Outdated of={of.error || !also ? of : also} />
  if (of.data) return children(of.data, problem)
  return (
    <Page title={title} back={<TextLink to={`/${kind.noun}s`}>{kind.title}</TextLink>}>
      {of.error ? problem : <Loading what={what} />}
    </Page>
  )
}
