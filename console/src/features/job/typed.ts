import { useState } from 'react'

type Typed = { subject: string; text: string }

/** textFor is what was typed to confirm a subject; what was typed for another one confirms nothing. */
export function textFor(typed: Typed | undefined, subject: string): string {
  return typed?.subject === subject ? typed.text : ''
}

/** useTypedFor is the text of a field that confirms something: it is empty again as soon as the subject is another one. */
export function useTypedFor(subject: string): [text: string, type: (text: string) => void] {
  const [typed, setTyped] = useState<Typed>()
  return [textFor(typed, subject), (text) => setTyped({ subject, text })]
}
