import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useId, useState, type SyntheticEvent } from 'react'
import { Button, Loading } from '../../ui/basics'
import { Dialog } from '../../ui/dialog'
import { ProblemNote } from '../../ui/problem'
import { say } from '../../ui/toast'
import { happen, happeningsQuery, heal, machinesQuery, type Happening } from './lab'

/** HappenDialog lets something happen to a machine that the control plane did not ask for. */
export function HappenDialog({ machine, onClose }: { machine: string; onClose: () => void }) {
  const queries = useQueryClient()
  const happenings = useQuery(happeningsQuery)
  const [what, setWhat] = useState('')
  const doing = useMutation({
    mutationFn: () => happen(machine, what),
    onSuccess: ({ said }) => {
      say(`${said}.`)
      void queries.invalidateQueries({ queryKey: machinesQuery.queryKey })
      onClose()
    },
  })
  const submit = (e: SyntheticEvent) => {
    e.preventDefault()
    doing.mutate()
  }
  const all = happenings.data ?? []
  return (
    <Dialog wide title={`Let something happen to ${machine}`} onClose={onClose}>
      <form onSubmit={submit} className="flex flex-col gap-4">
        <p className="text-sm text-muted">The control plane is not told: see how it notices, what it does, and what it asks of you.</p>
        {happenings.error && <ProblemNote error={happenings.error} onRetry={() => void happenings.refetch()} />}
        {happenings.isPending && <Loading what="what can happen" />}
        <div className="grid items-start gap-4 md:grid-cols-2">
          <Choices title="Happens at once" of={all.filter((h) => !h.lasts)} chosen={what} onChoose={setWhat} />
          <Choices title="Goes wrong from now on, until it is healed" of={all.filter((h) => h.lasts)} chosen={what} onChoose={setWhat} />
        </div>
        {doing.error && <ProblemNote error={doing.error} />}
        <div className="sticky bottom-0 flex justify-end gap-2 border-t border-line bg-surface py-3">
          <Button onClick={onClose} disabled={doing.isPending}>
            Cancel
          </Button>
          <Button type="submit" look="primary" busy={doing.isPending} disabled={!what}>
            Let it happen
          </Button>
        </div>
      </form>
    </Dialog>
  )
}

function Choices({ title, of, chosen, onChoose }: { title: string; of: Happening[]; chosen: string; onChoose: (what: string) => void }) {
  const id = useId()
  if (of.length === 0) return null
  return (
    <fieldset className="min-w-0">
      <legend className="pb-1 text-sm font-semibold">{title}</legend>
      <div className="flex flex-col">
        {of.map((h) => (
          <div key={h.what} className={`flex items-start gap-2 rounded-md px-2 py-1.5 ${chosen === h.what ? 'bg-accent-soft' : 'hover:bg-raised'}`}>
            <input id={`${id}-${h.what}`} type="radio" name="happening" checked={chosen === h.what} onChange={() => onChoose(h.what)} aria-describedby={`${id}-${h.what}-hint`} className="mt-0.5 size-4 shrink-0 accent-(--accent)" />
            <div>
              <label htmlFor={`${id}-${h.what}`} className="text-sm font-medium">
                {h.label}
              </label>
              <p id={`${id}-${h.what}-hint`} className="text-xs text-muted">
                {h.explanation}
              </p>
            </div>
          </div>
        ))}
      </div>
    </fieldset>
  )
}

/** HealDialog ends every fault of a machine. */
export function HealDialog({ machine, onClose }: { machine: string; onClose: () => void }) {
  const queries = useQueryClient()
  const healing = useMutation({
    mutationFn: () => heal(machine),
    onSuccess: ({ said }) => {
      say(`${said}.`)
      void queries.invalidateQueries({ queryKey: machinesQuery.queryKey })
      onClose()
    },
  })
  return (
    <Dialog title={`Heal ${machine}`} onClose={onClose}>
      <div className="flex flex-col gap-4">
        <p className="text-sm">Every fault of the machine ends; a machine that is Broken is marked fixed, and failed tests are accepted. What was lost on the way does not come back: work that was parked goes on when you retry it.</p>
        {healing.error && <ProblemNote error={healing.error} />}
        <div className="flex justify-end gap-2">
          <Button onClick={onClose} disabled={healing.isPending}>
            Keep as it is
          </Button>
          <Button look="primary" busy={healing.isPending} onClick={() => healing.mutate()}>
            Heal
          </Button>
        </div>
      </div>
    </Dialog>
  )
}
