import { useState } from 'react'
import { Button } from './basics'

/** Copy puts text on the clipboard. Pages that came by plain HTTP have none to write to: then the text is selected, and the keys copy it. */
export function Copy({ text, from, label = 'Copy' }: { text: string; from: () => Element | null; label?: string }) {
  const [said, setSaid] = useState('')
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text)
      setSaid('Copied')
    } catch {
      const element = from()
      if (element) window.getSelection()?.selectAllChildren(element)
      setSaid('Selected: press Ctrl+C')
    }
  }
  return (
    <span className="inline-flex items-center gap-2">
      <Button onClick={() => void copy()}>{label}</Button>
      <span role="status" className="text-xs text-muted">
        {said}
      </span>
    </span>
  )
}
