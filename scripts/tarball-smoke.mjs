// Adds, claims and completes one item. check.mjs runs this in an empty folder against the installed tarball.

import { open } from 'holdfast'

const hf = await open('./smoke.db', { agent: 'smoke' })
const queue = hf.queue('q')

await queue.add({ hello: 1 })
const claim = await queue.next()
if (claim.outcome !== 'claimed') throw new Error(`the item just added was not claimed: ${claim.outcome}`)
await queue.complete(claim.item.id)

await hf.close()
console.log('tarball: added, claimed and completed one item')
