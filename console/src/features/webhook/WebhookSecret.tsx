import type { Schemas } from '../../api/client'
import { ShownOnce } from '../../ui/shownonce'

/** WebhookSecret shows what signs the posts of a webhook, once. */
export function WebhookSecret({ of, onClose }: { of: Schemas['WebhookSecretView']; onClose: () => void }) {
  return (
    <ShownOnce title={`Secret of ${of.webhook.name}`} secret={of.secret} onClose={onClose}>
      <p>Give it to the receiver: it verifies with it that what comes is from here, as Standard Webhooks describes.</p>
    </ShownOnce>
  )
}
