/** A self-signed certificate for a test server, made here because no tool for it exists on every machine. */
import { generateKeyPairSync, randomBytes, sign } from 'node:crypto'
import { chownSync, mkdtempSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { standOnGround } from './server-ground.ts'

export interface Certificate {
  readonly certificateFile: string
  readonly keyFile: string
}

/** For servers of that name, as files that only the user they run as can read. */
export function placeCertificate(name: string): Certificate {
  const { folder, user } = standOnGround()
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const facts = factsOf(name, publicKey.export({ type: 'spki', format: 'der' }))
  const signature = bits(sign('sha256', facts, privateKey))
  const whole = sequence(facts, sequence(ecdsaWithSha256), signature)
  const place = mkdtempSync(join(folder, 'certificate-'))
  const files = { certificateFile: join(place, 'server.crt'), keyFile: join(place, 'server.key') }
  writeFileSync(files.certificateFile, asPem(whole))
  writeFileSync(files.keyFile, privateKey.export({ type: 'pkcs8', format: 'pem' }), { mode: 0o600 })
  if (user.uid !== undefined && user.gid !== undefined) {
    for (const path of [place, ...Object.values(files)]) chownSync(path, user.uid, user.gid)
  }
  return files
}

// The small part of DER that a version 3 certificate needs.
const ecdsaWithSha256 = objectId('2a8648ce3d040302')
const commonName = objectId('550403')
const basicConstraints = objectId('551d13')
const alternativeNames = objectId('551d11')
const dayMs = 24 * 3_600_000

function factsOf(name: string, publicKey: Buffer): Buffer {
  const subject = sequence(tagged(0x31, sequence(commonName, tagged(0x0c, Buffer.from(name)))))
  const from = Date.now() - dayMs
  const isAuthority = sequence(basicConstraints, tagged(0x04, sequence(tagged(0x01, Buffer.from([0xff])))))
  const names = sequence(alternativeNames, tagged(0x04, sequence(tagged(0x82, Buffer.from(name)))))
  return sequence(
    tagged(0xa0, tagged(0x02, Buffer.from([2]))),
    tagged(0x02, Buffer.concat([Buffer.from([1]), randomBytes(8)])),
    sequence(ecdsaWithSha256),
    subject,
    sequence(time(from), time(from + 30 * dayMs)),
    subject,
    publicKey,
    tagged(0xa3, sequence(isAuthority, names)),
  )
}

function tagged(tag: number, content: Buffer): Buffer {
  return Buffer.concat([Buffer.from([tag, ...sizeOf(content)]), content])
}

function sizeOf({ length }: Buffer): number[] {
  if (length < 128) return [length]
  return length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255]
}

function sequence(...parts: readonly Buffer[]): Buffer {
  return tagged(0x30, Buffer.concat(parts))
}

function objectId(hex: string): Buffer {
  return tagged(0x06, Buffer.from(hex, 'hex'))
}

function bits(content: Buffer): Buffer {
  return tagged(0x03, Buffer.concat([Buffer.from([0]), content]))
}

function time(at: number): Buffer {
  return tagged(0x18, Buffer.from(`${new Date(at).toISOString().replace(/[-:T]|\.\d+/g, '')}`))
}

function asPem(content: Buffer): string {
  const lines = content.toString('base64').match(/.{1,64}/g) ?? []
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`
}
