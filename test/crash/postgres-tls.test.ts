/** Encrypted connections to a server that proves its identity. */

import { execFile } from 'node:child_process'
import { beforeAll, expect, test } from 'vitest'
import { type Certificate, placeCertificate } from '../support/certificate.ts'
import { cleanEnvironment, program } from '../support/cli.ts'
import { refusal } from '../support/outcomes.ts'
import { ownServer } from './server-store.ts'
import { openHere } from './support.ts'

const own = ownServer()
let certificate: Certificate

beforeAll(async () => {
  certificate = placeCertificate('localhost')
  const { certificateFile, keyFile } = certificate
  await own.server.restart({ ssl: 'on', ssl_cert_file: certificateFile, ssl_key_file: keyFile })
})

test('with sslmode=require every connection is encrypted, whoever signed the certificate [X6]', async () => {
  const store = own.newStore()
  const hf = await openHere(`${store}&sslmode=require`)
  await hf.queue('jobs').add(null)

  expect(await encrypted(store)).toEqual([true, true])
})

test('without it no connection is', async () => {
  const store = own.newStore()
  const hf = await openHere(store)
  await hf.queue('jobs').add(null)

  expect(await encrypted(store)).toEqual([false, false])
})

test('with sslmode=verify-full a certificate without a trusted authority is refused, and the error says so [X6]', async () => {
  const refused = await refusal(() => openHere(`${own.newStore()}&sslmode=verify-full`))

  expect(refused).toMatchObject({ code: 'STORE_UNFIT' })
  expect(refused.message).toMatch(/self-signed certificate/)
})

test('with sslmode=verify-full a server is trusted only under the name in its certificate [X6]', async () => {
  const store = own.newStore()
  await openHere(store)
  const byName = new URL(`${store}&sslmode=verify-full`)
  byName.hostname = 'localhost'
  const byOther = new URL(byName.href)
  byOther.hostname = '127.0.0.1'

  expect(await statusOf(byName.href)).toMatchObject({ code: 0 })
  expect(await statusOf(byOther.href)).toMatchObject({
    code: 10,
    output: expect.stringMatching(/certificate/),
  })
})

async function encrypted(store: string): Promise<boolean[]> {
  const rows = await own.query<{ ssl: boolean }>(
    store,
    `select s.ssl from pg_stat_ssl s join pg_stat_activity a using (pid) where a.application_name = 'holdfast'`,
  )
  return rows.map(({ ssl }) => ssl)
}

/** Of a process that trusts the certificate. */
function statusOf(store: string): Promise<{ code: number; output: string }> {
  const env = { ...cleanEnvironment(), NODE_EXTRA_CA_CERTS: certificate.certificateFile }
  return new Promise((resolve) => {
    execFile(process.execPath, [program, 'status', '--store', store], { env }, (error, stdout, stderr) =>
      resolve({ code: Number(error?.code ?? 0), output: `${stdout}${stderr}` }),
    )
  })
}
