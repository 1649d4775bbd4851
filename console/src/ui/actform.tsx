import type { ReactNode } from 'react'
import { Button } from './basics'
import { ProblemNote } from './problem'

type Props = {
  /** What the form does, as it stands: a mutation. */
  doing: { isPending: boolean; error: unknown; mutate: () => void }
  /** The word on the button that does it. */
  does: string
  /** The word on the button that does nothing. */
  leave?: string
  danger?: boolean
  disabled?: boolean
  /** Judges the fields instead of the browser, and says whether they are right. */
  check?: () => boolean
  onClose: () => void
  children: ReactNode
}

/** ActForm is a form that does something: below its fields stand why that was refused, the way out, and the button. */
export function ActForm({ doing, does, leave = 'Keep as it is', danger, disabled, check, onClose, children }: Props) {
  return (
    <form
      noValidate={!!check}
      onSubmit={(e) => {
        e.preventDefault()
        if (!check || check()) doing.mutate()
      }}
      className="flex flex-col gap-4"
    >
      {children}
      {!!doing.error && <ProblemNote error={doing.error} />}
      <div className="flex justify-end gap-2">
        <Button disabled={doing.isPending} onClick={onClose}>
          {leave}
        </Button>
        <Button type="submit" look={danger ? 'danger' : 'primary'} busy={doing.isPending} disabled={disabled}>
          {does}
        </Button>
      </div>
    </form>
  )
}
