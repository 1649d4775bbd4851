import { useMutation } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { Button } from '../../ui/basics'
import { Dialog } from '../../ui/dialog'
import { ProblemNote } from '../../ui/problem'

/** ConfirmDialog asks before something is done that takes no reason. */
export function ConfirmDialog({ title, does, act, onDone, onClose, children }: { title: string; does: string; act: () => Promise<unknown>; onDone: () => void; onClose: () => void; children: ReactNode }) {
  const doing = useMutation({
    mutationFn: act,
    onSuccess: () => {
      onDone()
      onClose()
    },
  })
  return (
    <Dialog title={title} onClose={onClose}>
      <div className="flex flex-col gap-4 text-sm">
        {children}
        {doing.error && <ProblemNote error={doing.error} />}
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Keep as it is</Button>
          <Button look="primary" busy={doing.isPending} onClick={() => doing.mutate()}>
            {does}
          </Button>
        </div>
      </div>
    </Dialog>
  )
}
