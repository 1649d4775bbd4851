import { useSyncExternalStore } from 'react'

export type Theme = 'system' | 'light' | 'dark'

const place = 'gpuaas.theme'
const dark = window.matchMedia('(prefers-color-scheme: dark)')
const watchers = new Set<() => void>()

function kept(): Theme {
  const t = localStorage.getItem(place)
  return t === 'light' || t === 'dark' ? t : 'system'
}

function apply() {
  const t = kept()
  document.documentElement.dataset.theme = t === 'system' ? (dark.matches ? 'dark' : 'light') : t
  for (const fn of watchers) fn()
}

/** startTheme follows the system until somebody chooses. */
export function startTheme() {
  apply()
  dark.addEventListener('change', apply)
}

export function chooseTheme(t: Theme) {
  localStorage.setItem(place, t)
  apply()
}

export function useTheme(): Theme {
  return useSyncExternalStore((fn) => {
    watchers.add(fn)
    return () => void watchers.delete(fn)
  }, kept)
}
