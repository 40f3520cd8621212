/** Taking over a file of pending acknowledgements: once, with its gaps marked; a damaged one is refused and kept. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { importPendingAcks } from 'holdfast'
import { expect, onTestFinished, test } from 'vitest'
import { openPost, passAfter } from '../support/messages.ts'
import { refusal, refusalCode } from '../support/outcomes.ts'
import { forEachEngine } from '../support/stores.ts'

/** As the old program wrote it: local times without a zone, six digits of a second, one entry caught between two writes. */
function pendingAcks(now: number) {
  const local = (ms: number) => {
    const time = new Date(now + ms - new Date(now).getTimezoneOffset() * 60_000)
    return time.toISOString().replace('Z', '123')
  }
  return {
    version: 4,
    pending_acks: [
      {
        msg_id: '7f6c1c0e-8a52-4f0e-9a8e-4d2f0c3b1a01',
        sender_id: 'agent-0',
        recipient_id: 'agent-1',
        message: { msg_type: 'QUESTION', content: '[REQUIRES-ACK] which branch?', sender_id: 'agent-0' },
        sent_at: local(-40_000),
        retry_count: 1,
        next_retry_at: local(50_000),
      },
      {
        msg_id: 'temp-2b1f',
        sender_id: 'agent-0',
        recipient_id: 'agent-2',
        message: {},
        retry_count: 0,
      },
    ],
  }
}

function write(text: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-import-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const path = join(folder, 'PENDING_ACKS.json')
  writeFileSync(path, text)
  return path
}

forEachEngine((engine) => {
  test('pending messages continue under their old ids from the attempt they had reached [A15]', async () => {
    const post = await openPost(engine)
    const { pending_acks: pending } = pendingAcks(post.env.now())
    const path = write(JSON.stringify(pendingAcks(post.env.now())))

    const report = await importPendingAcks(post.hf, path)

    const [first, second] = pending.map(({ msg_id }) => msg_id) as [string, string]
    expect(report).toEqual({
      version: 4,
      imported: [first, second],
      known: [],
      flagged: [
        {
          id: second,
          gaps: [
            'it never got its final id',
            'it has no content',
            'it does not say when it was sent',
            'it does not say when it is due',
          ],
        },
      ],
    })
    expect(await post.messages.get(first)).toMatchObject({
      sender: 'agent-0',
      type: 'QUESTION',
      content: '[REQUIRES-ACK] which branch?',
      createdAt: post.env.now() - 40_000,
      state: 'sent',
      note: null,
      deliveries: [{ recipient: 'agent-1', attempts: 2, dueInMs: 50_000 }],
    })
    expect(await post.messages.get(second)).toMatchObject({
      type: 'INFO',
      content: null,
      note: expect.stringContaining('imported: it never got its final id'),
      deliveries: [{ attempts: 1, dueInMs: 0 }],
    })
    expect(await passAfter(post, 49_999)).toMatchObject({ retried: 1 })
    expect(await passAfter(post, 1)).toMatchObject({ retried: 1 })
    expect((await post.messages.receiveAck(first, { agent: 'agent-1' })).outcome).toBe('acked')
  })

  test('importing twice imports nothing twice, and a dry run imports nothing at all [A15] [S5c-32]', async () => {
    const post = await openPost(engine)
    const text = JSON.stringify(pendingAcks(post.env.now()))

    const dry = await importPendingAcks(post.hf, text, { dryRun: true })
    const before = await post.messages.getPendingCount()
    await importPendingAcks(post.hf, text)
    await post.messages.clearPendingAcks()
    const again = await importPendingAcks(post.hf, text)

    expect(dry.imported).toHaveLength(2)
    expect(before).toBe(0)
    expect(dry.flagged).toHaveLength(1)
    expect(again).toMatchObject({ imported: [], flagged: [] })
    expect(again.known).toHaveLength(2)
    expect(await post.messages.getPendingCount()).toBe(0)
  })

  test('a file without a version counts as version 0, and an empty one imports nothing [A15]', async () => {
    const { hf } = await openPost(engine)

    expect(await importPendingAcks(hf, '{"pending_acks": []}')).toEqual({
      version: 0,
      imported: [],
      known: [],
      flagged: [],
    })
  })

  const entry = { msg_id: 'x', sender_id: 'agent-0', recipient_id: 'agent-1' }
  test.each(
    Object.entries({
      'cut off': '{"version": 3, "pending_acks": [{"msg_id": "a"',
      'without its list': '{"version": 3}',
      'with an entry that names nobody': JSON.stringify({ pending_acks: [{ msg_id: 'a' }] }),
      'with an id that cannot be one': JSON.stringify({ pending_acks: [{ ...entry, msg_id: 'a b' }] }),
      'with two messages of one id': JSON.stringify({
        pending_acks: ['one', 'two'].map((content) => ({ ...entry, message: { content } })),
      }),
      'with a bad entry after hundreds of good ones': JSON.stringify({
        pending_acks: [
          ...Array.from({ length: 150 }, (_, number) => ({ ...entry, msg_id: `m${number}` })),
          { ...entry, sender_id: '-rf' },
        ],
      }),
    }),
  )('a file %s is refused whole and left as it was [A15] [S5]', async (_, text) => {
    const { hf, messages } = await openPost(engine)
    const path = write(text)

    const error = await refusal(() => importPendingAcks(hf, path))

    expect(error.code).toBe('INVALID')
    expect(readFileSync(path, 'utf8')).toBe(text)
    expect(await messages.getPendingCount()).toBe(0)
  })

  test('a missing file is an error', async () => {
    const { hf } = await openPost(engine)

    expect(await refusalCode(() => importPendingAcks(hf, 'no/such/file.json'))).toBe('NOT_FOUND')
  })
})
