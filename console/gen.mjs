// Writes what is made of the contract: the types of the API, and the words that
// explain its fields, so that a form explains a policy with the contract's own.
// Before a build (the word "build") it also empties dist, of which only .keep is
// not made.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import openapiTS, { astToString } from 'openapi-typescript'
import { parse } from 'yaml'

const contract = new URL('../contract/openapi.yaml', import.meta.url)
const document = parse(readFileSync(contract, 'utf8'), { maxAliasCount: -1 })
const out = new URL('src/api/gen/', import.meta.url)
mkdirSync(out, { recursive: true })
writeFileSync(new URL('schema.d.ts', out), astToString(await openapiTS(document, { alphabetize: true })))

// Forms are made of these schemas.
const explained = ['SiteNewBody', 'SiteNewProfileBody', 'SkuNewBody', 'SiteCredentialsBody']
const words = {}
for (const name of explained) {
  const schema = document.components.schemas[name]
  if (!schema) throw new Error(`the contract has no schema ${name}`)
  words[name] = Object.fromEntries(
    Object.entries(schema.properties).map(([field, s]) => [
      field,
      Object.fromEntries(
        ['description', 'default', 'minimum', 'maximum', 'minLength', 'maxLength', 'pattern', 'enum', 'type', 'format']
          .filter((k) => s[k] !== undefined)
          .map((k) => [k, s[k]])
          .concat([['required', (schema.required ?? []).includes(field)], ['example', s.examples?.[0]]]),
      ),
    ]),
  )
}
writeFileSync(new URL('explained.json', out), JSON.stringify(words, null, 1))

if (process.argv.includes('build')) {
  const dist = new URL('dist/', import.meta.url)
  for (const name of readdirSync(dist)) {
    if (name !== '.keep') rmSync(new URL(name, dist), { recursive: true })
  }
}
