import { useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { useCallback } from 'react'

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
 * value is left out.
 */
export function useSearchState(): [Record<string, string | undefined>, (patch: Record<string, string | undefined>) => void] {
  const search: Record<string, string | undefined> = useSearch({ strict: false })
  const navigate = useNavigate()
  const change = useCallback(
    (patch: Record<string, string | undefined>) =>
      void navigate({ to: '.', replace: true, search: ((before: Record<string, string>) => Object.fromEntries(Object.entries({ ...before, ...patch }).filter(([, v]) => v))) }),
    [navigate],
  )
  return [search, change]
}
