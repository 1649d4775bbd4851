import { useEffect, useState } from 'react'
import { TextField } from './form'

const patience = 300

/** FilterText is a filter that is typed: the list is asked anew when the typing rests, not with every letter. */
export function FilterText({ label, value, onChange, placeholder, list, hint }: { label: string; value: string; onChange: (v: string) => void; placeholder?: string; list?: string[]; hint?: string }) {
  const [typed, setTyped] = useState(value)
  const [before, setBefore] = useState(value)
  const [sent, setSent] = useState(value)
  if (before !== value) {
    setBefore(value)
    // What was sent from here comes back later: more may have been typed since. Anything
    // else was changed elsewhere, by a link or the way back.
    if (value !== sent) {
      setTyped(value)
      setSent(value)
    }
  }
  const wanted = typed.trim()
  useEffect(() => {
    if (wanted === value || wanted === sent) return
    const timer = setTimeout(() => {
      setSent(wanted)
      onChange(wanted)
    }, patience)
    return () => clearTimeout(timer)
  }, [wanted, value, sent, onChange])
  return <TextField label={label} type="search" value={typed} onChange={setTyped} placeholder={placeholder} list={list} hint={hint} />
}
