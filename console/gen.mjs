// Writes what is made of the contract: the types of the API, its enums, the states of
// nouns, the kinds of jobs, what roles include, and the words that explain fields, so that a form explains a policy with the
// contract's own.
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

// Lists of the console are made of these: the values of enums, by the names that the Go
// client has for them (Words): of a field, Schema.field; of a parameter, operation.parameter.
const enums = {}
const note = (name, schema) => {
  const values = (schema?.items ?? schema)?.enum
  if (values) enums[name] = values
}
for (const [name, schema] of Object.entries(document.components.schemas)) {
  for (const [field, s] of Object.entries(schema.properties ?? {})) note(`${name}.${field}`, s)
}
for (const operation of Object.values(document.paths).flatMap((item) => Object.values(item))) {
  for (const parameter of operation.parameters ?? []) note(`${operation.operationId}.${parameter.name}`, parameter.schema)
}
// States, from the lifecycle tables: noun, state, and what is known of it.
const lifecycles = Object.fromEntries(Object.entries(document['x-gpuaas-states']).map(([noun, states]) => [noun, Object.fromEntries(states.map(({ name, ...known }) => [name, known]))]))
// In which states a node can be turned over (modesFrom), from the table of modes.
// What roles include, from the table of permissions.
const grants = document['x-gpuaas-grants']
// Kinds of jobs, which of them have batches, and by which parameter each lists the jobs of a node.
const jobFamilies = document['x-gpuaas-jobs']
const listed = (path) => document.paths[`/api/v1/admin/${path}`]?.get?.parameters?.map((p) => p.name) ?? []
const batchFamilies = jobFamilies.filter((f) => listed(`${f}-batches`).length > 0)
const jobsOfNode = Object.fromEntries(jobFamilies.map((f) => [f, ['node_id', 'hostname'].find((p) => listed(`${f}s`).includes(p))]).filter(([, p]) => p))
const constant = (name, value) => `export const ${name} = ${JSON.stringify(value, null, 1)} as const\n`
writeFileSync(new URL('enums.ts', out), constant('enums', enums) + constant('grants', grants) + constant('lifecycles', lifecycles) + constant('modesFrom', document['x-gpuaas-modes']) + constant('jobFamilies', jobFamilies) + constant('batchFamilies', batchFamilies) + constant('jobsOfNode', jobsOfNode))

if (process.argv.includes('build')) {
  const dist = new URL('dist/', import.meta.url)
  for (const name of readdirSync(dist)) {
    if (name !== '.keep') rmSync(new URL(name, dist), { recursive: true })
  }
}
