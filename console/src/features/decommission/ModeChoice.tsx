import { useId } from 'react'
import type { Schemas } from '../../api/client'
import { SelectField } from '../../ui/form'
import { words } from '../../ui/tone'
import { cleanupWords, eraseWords, isFinal, modes, modeWords, takesCleanup, takesErase, type Choices, type Mode } from './modes'

type ModeView = Schemas['DecommissionModeView']

/** ModeChoice lets one choose what is done to a node, each with what it means; a mode that the state of the node does not allow says so. */
export function ModeChoice({ mode, onMode, known, status }: { mode?: Mode; onMode: (m: Mode) => void; known: ModeView[]; status?: ModeView['from'][number] }) {
  const name = useId()
  return (
    <fieldset className="flex flex-col gap-2">
      <legend className="mb-1 text-sm font-medium">
        What to do<span className="text-bad"> *</span>
      </legend>
      <div className="grid gap-2 sm:grid-cols-2">
        {modes.map((m) => {
          const about = known.find((k) => k.mode === m)
          const possible = !status || !about || about.from.includes(status)
          const chosen = m === mode
          const look = isFinal(m) ? `border-bad ${chosen ? 'bg-bad-soft ring-1 ring-bad' : ''}` : chosen ? 'border-accent bg-accent-soft' : 'border-line'
          return (
            <label key={m} className={`flex items-start gap-2 rounded-md border px-3 py-2 ${look} ${possible ? 'cursor-pointer' : 'opacity-60'}`}>
              <input type="radio" name={name} value={m} checked={chosen} disabled={!possible} onChange={() => onMode(m)} className="mt-1 shrink-0 accent-(--accent)" />
              <span className="min-w-0 text-sm">
                <span className={`font-medium ${isFinal(m) ? 'text-bad' : ''}`}>{modeWords(m).title}</span>
                {isFinal(m) && <span className="text-xs font-medium text-bad"> · cannot be undone</span>}
                {about && <span className="text-xs text-muted"> · usually {about.usually}</span>}
                <span className="block text-xs">{modeWords(m).what}</span>
                {about && chosen && <span className="block text-xs text-muted">Then the node is {about.ends}.</span>}
                {about && !possible && <span className="block text-xs text-warn">Not possible for a node that is {words(status)}: only {about.from.map(words).join(', ')}.</span>}
              </span>
            </label>
          )
        })}
      </div>
    </fieldset>
  )
}

/** Depth chooses how thoroughly disks are cleaned, where the mode leaves that open. */
export function Depth({ mode, choices, onChoices }: { mode: Mode; choices: Choices; onChoices: (c: Choices) => void }) {
  if (!takesErase(mode) && !takesCleanup(mode)) return null
  const cleanups = (Object.keys(cleanupWords) as Choices['cleanup'][]).filter((c) => mode !== 'storage_cleanup' || c !== 'none')
  return (
    <div className="grid gap-3 sm:grid-cols-2">
      {takesCleanup(mode) && (
        <SelectField label="Cleaned by the agent" value={choices.cleanup} onChange={(v) => onChoices({ ...choices, cleanup: v as Choices['cleanup'] })} options={cleanups} hint={cleanupWords[choices.cleanup]} />
      )}
      {takesErase(mode) && (
        <SelectField label="Erased by MAAS" value={choices.erase} onChange={(v) => onChoices({ ...choices, erase: v as Choices['erase'] })} options={Object.keys(eraseWords)} hint={eraseWords[choices.erase]} />
      )}
    </div>
  )
}
