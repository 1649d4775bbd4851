import { useMutation } from '@tanstack/react-query'
import { useState, type ReactNode, type SyntheticEvent } from 'react'
import { Button } from './basics'
import { Dialog } from './dialog'
import { TextField } from './form'
import { ProblemNote } from './problem'

type Props = {
  title: string
  /** What will happen, in words. */
  children: ReactNode
  does: string
  danger?: boolean
  /** Text that has to be typed first, for what cannot be undone. */
  confirm?: string
  act: () => Promise<unknown>
  onDone: () => void
  onClose: () => void
}

/** ConfirmDialog asks before something is done of which the control plane keeps no reason. */
export function ConfirmDialog({ title, children, does, danger, confirm, act, onDone, onClose }: Props) {
  const [typed, setTyped] = useState('')
  const doing = useMutation({
    mutationFn: act,
    onSuccess: () => {
      onDone()
      onClose()
    },
  })
  const submit = (e: SyntheticEvent) => {
    e.preventDefault()
    doing.mutate()
  }
  return (
    <Dialog title={title} onClose={onClose}>
      <form onSubmit={submit} className="flex flex-col gap-4">
        <div className="flex flex-col gap-2 text-sm">{children}</div>
        {confirm && <TextField label={`Type ${confirm} to go on`} required value={typed} onChange={setTyped} />}
        {doing.error && <ProblemNote error={doing.error} />}
        <div className="flex justify-end gap-2">
          <Button onClick={onClose} disabled={doing.isPending}>Keep as it is</Button>
          <Button type="submit" look={danger ? 'danger' : 'primary'} busy={doing.isPending} disabled={confirm !== undefined && typed !== confirm}>
            {does}
          </Button>
        </div>
      </form>
    </Dialog>
  )
}
