import { AskDialog, type Ask } from './dialog'

/** ConfirmDialog asks before something is done of which the control plane keeps no reason. */
export function ConfirmDialog(ask: Ask & { act: () => Promise<unknown> }) {
  return <AskDialog {...ask} />
}
