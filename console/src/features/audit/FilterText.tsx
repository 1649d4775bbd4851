import { useEffect, useState } from 'react'
import { TextField } from '../../ui/form'

const patience = 350

/** FilterText is a filter that is typed: the list is asked anew when the typing rests, not with every letter. */
export function FilterText({ label, value, onChange, placeholder, list, hint }: { label: string; value: string; onChange: (v: string) => void; placeholder?: string; list?: string[]; hint?: string }) {
  const [typed, setTyped] = useState(value)
  const [before, setBefore] = useState(value)
  if (value !== before) {
    // The address was changed from elsewhere: by a link, or the way back.
    setBefore(value)
    setTyped(value)
  }
  useEffect(() => {
    if (typed.trim() === value) return
    const timer = setTimeout(() => onChange(typed.trim()), patience)
    return () => clearTimeout(timer)
  }, [typed, value, onChange])
  return <TextField label={label} type="search" value={typed} onChange={setTyped} placeholder={placeholder} list={list} hint={hint} />
}
