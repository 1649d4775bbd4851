import { useIsMutating, useMutation } from '@tanstack/react-query'
import { useEffect, useId, useRef, useState, type ReactNode } from 'react'
import { ActForm } from './actform'
import { Button } from './basics'
import { ReasonField, TextField } from './form'

/**
 * Dialog is modal while it is rendered: whoever opens it renders it. It cannot be closed
 * while a change is under way, whose refusal nobody would see, nor without onClose.
 */
export function Dialog({ title, onClose, children, wide, bare }: { title: ReactNode; onClose?: () => void; children: ReactNode; wide?: boolean; /** Without a head, near the top, and what is beside it closes it. */ bare?: boolean }) {
  const ref = useRef<HTMLDialogElement>(null)
  const id = useId()
  const busy = useIsMutating() > 0
  const close = busy ? undefined : onClose
  useEffect(() => {
    const dialog = ref.current
    if (!dialog) return
    const opener = document.activeElement
    dialog.showModal()
    // Whoever asked for it goes on with its first field, not with the button that closes it.
    dialog.querySelector<HTMLElement>('input:not(:disabled), textarea, select')?.focus()
    return () => {
      dialog.close()
      giveFocusBack(opener)
    }
  }, [])
  return (
    // eslint-disable-next-line jsx-a11y/click-events-have-key-events, jsx-a11y/no-noninteractive-element-interactions -- Escape does what a click beside it does
    <dialog
      ref={ref}
      aria-labelledby={id}
      onCancel={(e) => {
        e.preventDefault()
        if (e.target === e.currentTarget) close?.()
      }}
      onClose={({ currentTarget: dialog }) => {
        // Browsers close it at the second Escape, whatever was said to the first.
        if (!dialog.isConnected || dialog.open) return
        if (close) close()
        else dialog.showModal()
      }}
      onClick={(e) => {
        if (bare && e.target === e.currentTarget) close?.()
      }}
      className={`${bare ? 'mx-auto mt-[8vh]' : 'm-auto'} max-h-[92vh] w-[calc(100%-2rem)] overflow-auto rounded-lg border border-line bg-surface p-0 text-ink shadow-xl ${wide ? 'max-w-4xl' : 'max-w-xl'}`}
    >
      <header className={bare ? 'sr-only' : 'flex items-center justify-between gap-4 border-b border-line px-4 py-3'}>
        <h2 id={id} className="text-base font-semibold">
          {title}
        </h2>
        {onClose && !bare && (
          <Button look="quiet" onClick={close} disabled={!close} aria-label="Close">
            ✕
          </Button>
        )}
      </header>
      <div className={bare ? undefined : 'p-4'}>{children}</div>
    </dialog>
  )
}

// The element is gone by now when the dialog was opened from a row that is no more.
function giveFocusBack(opener: Element | null) {
  const free = !document.activeElement || document.activeElement === document.body
  if (!free || document.querySelector('dialog:modal')?.contains(opener) === false) return
  const to = opener?.isConnected && opener !== document.body ? opener : document.getElementById('content')
  if (to instanceof HTMLElement) to.focus({ preventScroll: true })
}

export type Ask = {
  title: ReactNode
  /** What will happen, in words. */
  children?: ReactNode
  /** The word on the button. */
  does: string
  danger?: boolean
  /** Text that has to be typed first, for what cannot be undone. */
  confirm?: string
  act: (reason: string) => Promise<unknown>
  onDone?: () => void
  onClose: () => void
}

/** ReasonDialog asks why before something is done: the reason is kept in the audit log. */
export function ReasonDialog(ask: Ask) {
  return <AskDialog {...ask} why />
}

/** AskDialog asks before something is done, and why if a reason is kept. */
export function AskDialog({ title, children, does, danger, confirm, why, act, onDone, onClose }: Ask & { why?: boolean }) {
  const [reason, setReason] = useState('')
  const [typed, setTyped] = useState('')
  const doing = useMutation({
    mutationFn: () => act(reason.trim()),
    onSuccess: () => {
      onDone?.()
      onClose()
    },
  })
  const incomplete = (why && reason.trim() === '') || (confirm !== undefined && typed !== confirm)
  return (
    <Dialog title={title} onClose={onClose}>
      <ActForm doing={doing} does={does} danger={danger} disabled={incomplete} onClose={onClose}>
        {children && <div className="flex flex-col gap-2 text-sm">{children}</div>}
        {why && <ReasonField value={reason} onChange={setReason} />}
        {confirm && <TextField label={`Type “${confirm}” to confirm`} required value={typed} onChange={setTyped} />}
      </ActForm>
    </Dialog>
  )
}
