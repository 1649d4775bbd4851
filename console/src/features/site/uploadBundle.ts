import { api, got } from '../../api/client'
import { base64, hex } from './bundle'

/** upload announces a bundle with its digest, sends it in parts, and has it kept. One that broke off goes on where it was. */
export async function upload(siteId: string, ref: string, bytes: Uint8Array<ArrayBuffer>) {
  const path = { site_id: siteId }
  const sha256 = hex(new Uint8Array(await crypto.subtle.digest('SHA-256', bytes)))
  let at = await got(api.POST('/api/v1/admin/maas-sites/{site_id}/bundle-uploads', { params: { path }, body: { ref, sha256, size: bytes.length } }))
  const params = { path: { ...path, upload_id: at.upload_id } }
  while (at.received < bytes.length) {
    const data = base64(bytes.subarray(at.received, at.received + at.max_part))
    at = await got(api.POST('/api/v1/admin/maas-sites/{site_id}/bundle-uploads/{upload_id}/parts', { params, body: { ref, offset: at.received, data } }))
  }
  return got(api.POST('/api/v1/admin/maas-sites/{site_id}/bundle-uploads/{upload_id}/complete', { params, body: { ref } }))
}
