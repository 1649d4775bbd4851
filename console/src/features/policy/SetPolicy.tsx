import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { asRefusal } from '../../api/client'
import { ActForm } from '../../ui/actform'
import { Note } from '../../ui/basics'
import { Dialog } from '../../ui/dialog'
import { CheckField, SelectField, TextArea, TextField } from '../../ui/form'
import { bodyOf, draftOf, everyType, scopeWords, targetKinds, type Draft, type Level, type Policy } from './policy'
import { putPolicy } from './queries'

type Props = { of: Level; type: string; policy: Policy; etag: string; onDone: () => void; onClose: () => void }

/** SetPolicy settles what a level says about a type of operation. What is left empty is left to the other levels. */
export function SetPolicy({ of, type, policy, etag, onDone, onClose }: Props) {
  const [draft, setDraft] = useState(() => draftOf(policy))
  const change = (patch: Partial<Draft>) => setDraft((before) => ({ ...before, ...patch }))
  const onPlatform = !of.orgId
  const { body, wrong } = bodyOf(draft, onPlatform)
  const setting = useMutation({
    mutationFn: () => putPolicy(of, type, etag, body),
    onSuccess: () => {
      onDone()
      onClose()
    },
  })
  const refused = setting.error ? asRefusal(setting.error).fields : {}
  return (
    <Dialog title={`What ${scopeWords[policy.scope]} says about ${type === everyType ? 'all types' : type}`} onClose={onClose} wide>
      <ActForm doing={setting} does="Set" leave="Cancel" disabled={Object.keys(wrong).length > 0} onClose={onClose}>
        <p className="text-sm text-muted">Empty fields take the value of the other levels. A level can only narrow the limits above it.</p>
        <div className="grid gap-4 sm:grid-cols-2">
          <SelectField label="Can it be run" value={draft.enabled} onChange={(enabled) => change({ enabled })} options={[{ value: '', label: 'as the other levels say' }, { value: 'true', label: 'yes' }, { value: 'false', label: 'no' }]} hint="The most specific level decides, unless the platform denies it for good." error={refused.enabled} />
          <TextField label="Nodes at a time, at most" value={draft.concurrency} onChange={(concurrency) => change({ concurrency })} error={wrong.concurrency ?? refused.max_concurrency} />
          <TextField label="Seconds on one node, at most" value={draft.timeout} onChange={(timeout) => change({ timeout })} error={wrong.timeout ?? refused.timeout_seconds} />
          <TextField label="Bytes of an artifact, at most" value={draft.size} onChange={(size) => change({ size })} error={wrong.size ?? refused.max_artifact_size_bytes} />
        </div>
        <CheckField label="Signatures of artifacts must be checked" value={draft.signature} onChange={(signature) => change({ signature })} />
        <CheckField label="Narrow the allowed targets" value={draft.narrowKinds} onChange={(narrowKinds) => change({ narrowKinds })} />
        {draft.narrowKinds && (
          <div role="group" aria-label="Allowed targets" className="flex flex-wrap gap-4 pl-6">
            {targetKinds.map((k) => (
              <CheckField key={k} label={k} value={draft.kinds.includes(k)} onChange={(on) => change({ kinds: on ? [...draft.kinds, k] : draft.kinds.filter((o) => o !== k) })} />
            ))}
          </div>
        )}
        <CheckField label="Narrow where artifacts may come from" value={draft.narrowSources} onChange={(narrowSources) => change({ narrowSources })} />
        {draft.narrowSources && <TextArea label="Where artifacts may come from" mono value={draft.sources} onChange={(sources) => change({ sources })} hint="Prefixes, one a line. None at all allows no artifact." error={refused.allowed_artifact_sources} />}
        {onPlatform && <CheckField label="Deny it for good" value={draft.hardDeny} onChange={(hardDeny) => change({ hardDeny })} hint="No tenant and no project can enable it." />}
        {draft.hardDeny && onPlatform && <Note tone="warn" title="Nobody can run it from then on. Runs that have begun are asked again before each node." />}
        <TextArea label="Reason" rows={2} most={500} value={draft.reason} onChange={(reason) => change({ reason })} hint="For whoever is refused, or reads the history." />
      </ActForm>
    </Dialog>
  )
}
