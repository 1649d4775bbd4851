import { useCallback, useEffect, useRef, useState } from 'react'
import { kept } from './kept'
import { useMe } from './session'

/**
 * useDraft is state that outlives a look at another page, a closed dialog and a reload, until it is
 * forgotten: what is typed into a form. It is of one person and one tab, and goes with the sign-out.
 * Secrets have no place in it. A form without a name keeps nothing.
 */
export function useDraft<T extends object>(form: string | undefined, initial: T): [T, (change: T | ((before: T) => T)) => void, () => void] {
  const me = useMe()
  const key = form && `draft of ${me.id}: ${form}`
  const [first] = useState(initial)
  const [typed, setTyped] = useState(() => (key ? kept(sessionStorage.getItem(key), initial) : initial))
  const forgotten = useRef(false)
  useEffect(() => {
    if (!key || forgotten.current) return
    if (JSON.stringify(typed) === JSON.stringify(first)) sessionStorage.removeItem(key)
    else sessionStorage.setItem(key, JSON.stringify(typed))
  }, [key, typed, first])
  const forget = useCallback(() => {
    forgotten.current = true
    if (key) sessionStorage.removeItem(key)
  }, [key])
  return [typed, setTyped, forget]
}
