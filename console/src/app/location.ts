import { useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { useCallback, useEffect, useMemo, useState } from 'react'
import { level, remaining, type Search } from './ahead'

// The address follows within a moment; if it does not, it is right all the same.
const patience = 1_000

/** useParam is a part of the path, such as nodeId of /nodes/$nodeId. */
export function useParam(name: string): string {
  const params: Record<string, string | undefined> = useParams({ strict: false })
  const value = params[name]
  if (!value) throw new Error(`the path has no ${name}`)
  return value
}

/**
 * useSearchState is what the address says after the question mark: filters, order and
 * tabs live there, so that a view can be shared and the way back leads to it. An empty
 * value is left out. The address follows a little later; what is typed shows at once,
 * or the caret would jump.
 */
export function useSearchState(): [Search, (patch: Search) => void] {
  const search: Search = useSearch({ strict: false })
  const navigate = useNavigate()
  const [ahead, setAhead] = useState<Search>(level)
  const left = remaining(ahead, search)
  if (left !== ahead) setAhead(left)
  useEffect(() => {
    if (ahead === level) return
    const timer = setTimeout(() => setAhead(level), patience)
    return () => clearTimeout(timer)
  }, [ahead])
  const change = useCallback(
    (patch: Search) => {
      setAhead((before) => ({ ...before, ...patch }))
      void navigate({ to: '.', replace: true, search: ((before: Record<string, string>) => Object.fromEntries(Object.entries({ ...before, ...patch }).filter(([, v]) => v))) })
    },
    [navigate],
  )
  return [useMemo(() => Object.fromEntries(Object.entries({ ...search, ...left }).filter(([, v]) => v)), [search, left]), change]
}
