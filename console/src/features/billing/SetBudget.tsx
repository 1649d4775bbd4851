import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, asRefusal, got } from '../../api/client'
import { ActForm } from '../../ui/actform'
import { Dialog } from '../../ui/dialog'
import { CheckField, SelectField, TextField } from '../../ui/form'
import { say } from '../../ui/toast'
import { budgetDraft, budgetOf, type Budget, type BudgetDraft } from './budget'

type Props = { currency: string; /** The project, or those that one is chosen of. */ projects: { value: string; label: string }[]; budget?: Budget; onClose: () => void }

/** SetBudget sets what a project means to spend in a month. */
export function SetBudget({ currency, projects, budget, onClose }: Props) {
  const queries = useQueryClient()
  const [draft, setDraft] = useState(() => budgetDraft(budget))
  const [project, setProject] = useState(projects[0]?.value ?? '')
  const change = (patch: Partial<BudgetDraft>) => setDraft({ ...draft, ...patch })
  const { body, wrong, ready } = budgetOf(draft, currency)
  const doing = useMutation({
    mutationFn: () => got(api.PUT('/api/v1/projects/{project_id}/budget', { params: { path: { project_id: project } }, body })),
    onSuccess: () => {
      say('The budget is set.')
      void queries.invalidateQueries({ queryKey: ['budgets'] })
      onClose()
    },
  })
  const refused = doing.error ? asRefusal(doing.error).fields : {}
  return (
    <Dialog title={budget ? 'Change the budget' : 'Set a budget'} onClose={onClose}>
      <ActForm doing={doing} does="Set" leave="Cancel" disabled={!ready || !project} onClose={onClose}>
        {projects.length > 1 && <SelectField label="Project" value={project} onChange={setProject} options={projects} />}
        <TextField label={`For a month, in ${currency}`} required value={draft.amount} onChange={(amount) => change({ amount })} hint="What the project plans to spend in a calendar month (UTC)." error={wrong.amount ?? refused.amount_minor} />
        <TextField label="Alert at, in percent" value={draft.alerts} onChange={(alerts) => change({ alerts })} hint="Each alert is sent once a month, as an event. Empty: no alerts." error={wrong.alerts ?? refused.alerts} />
        <CheckField label="Hard stop" value={draft.hardStop} onChange={(hardStop) => change({ hardStop })} hint="New requests beyond the budget are refused. Running allocations continue." />
      </ActForm>
    </Dialog>
  )
}
